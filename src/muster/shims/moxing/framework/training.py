"""MoXing's training API, which Muster does not have."""


def explain(name: str) -> object:
    """Raises AttributeError for a name of the training API, and says what there is instead."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"moxing.{name} belongs to MoXing's training API, which Muster does not have; it offers moxing.file, and runs"
        " programs that are written for PyTorch, MindSpore, TensorFlow, PaddlePaddle or Horovod themselves"
    )
