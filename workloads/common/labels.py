"""The labels of a job, `--label=value`: a workload declares its settings as a dataclass, and AISBench's are understood."""

from __future__ import annotations

import atexit
import dataclasses
import difflib
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

from common import seat, zoo

# Labels of AISBench, ModelArts and MindSpore's model zoo that have another name here.
SYNONYMS = {
    "enable_save_ckpt": "save_checkpoint",
    "keep_checkpoint_max": "save_checkpoint_num",
    "epochs": "epoch_size",
    "max_epoch": "epoch_size",
    "train_batch_size": "batch_size",
    "per_batch_size": "batch_size",
    "data_dir": "data_path",
    "train_image_size": "image_size",
}
# Labels that those systems pass and that mean nothing here: Muster tells the ranks and their devices.
WITHOUT_MEANING = frozenset(
    [
        *("enable_modelarts", "run_distribute", "distribute", "device_num", "num_gpus", "init_method", "rank", "world_size"),
        *("device_id", "device_target", "enable_data_sink", "data_sink_steps", "enable_lossscale", "loss_scale"),
        *("is_dynamic_loss_scale", "enable_profiling", "parameter_server", "checkpoint_url", "output_dir", "load_path"),
        *("checkpoint_path", "checkpoint_file_path", "pretrain_epoch_size", "run_eval", "num_parallel_workers", "boost_mode"),
        *("infer_label", "enable_graph_kernel", "allreduce_post_accumulation", "schema_dir", "schema_file", "train_with_eval"),
        *("eval_samples", "eval_ckpt", "save_checkpoint_path", "loss_scale_value", "scale_factor", "scale_window"),
        *("enable_global_norm", "bucket_list", "description", "output_path", "dataset_format", "num_samples", "data_file"),
        *("net_name", "pre_trained", "eval_dataset_path", "filter_weight", "save_best_ckpt", "eval_start_epoch"),
        *("enable_cache", "cache_session_id", "mode_name", "conv_init", "dense_init", "all_reduce_fusion_config"),
        *("eval_image_size", "lr_init", "lars_epsilon", "lars_coefficient", "start_epoch", "resume_ckpt", "has_trained_epoch"),
        *("has_trained_step", "finetune_ckpt", "save_graphs", "save_graphs_path", "file_format", "file_name", "ckpt_file"),
        *("checkpoint_file", "export_batch_size", "result_path", "label_path", "img_path"),
    ]
)
# Those that mean something in a file of the model zoo, where the network chooses among them.
OF_NETWORKS = ("base_batch_size", "nezha_batch_size", "large_batch_size", "large_boost_batch_size")
PASSED_OVER = "label {} has no meaning here"
VARIABLES = {"EPOCH_SIZE": "epoch_size", "TRAIN_STEPS": "train_steps"}  # of AISBench's config.sh
Settings = TypeVar("Settings", bound="Common")


class Wrong(Exception):
    """Something that the user can put right; its text says what and how."""


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a label takes: from 0 on, where its setting says nothing else."""

    least: float = 0
    most: float = math.inf
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most and value < self.below

    def __str__(self) -> str:
        if self.below < math.inf:
            return f"from {self.least:,} to less than {self.below:,}"
        return f"from {self.least:,} to {self.most:,}" if self.most < math.inf else f"from {self.least:,} on"


Count = Annotated[int, Range(1)]
Share = Annotated[float, Range(0, 1)]
Fraction = Annotated[float, Range(0, below=1)]
Seed = Annotated[int, Range(0, 2**32 - 1)]  # as large as all libraries take


@dataclasses.dataclass
class Common:
    """The settings that every workload has; a workload adds its own and may change the defaults."""

    data_url: str = ""  # a directory, or a URL that is fetched with MoXing; wins over data_path
    data_path: str = ""  # a directory; environment variables in it are filled in
    train_url: str = ""  # for checkpoints: a directory, or a URL that they are copied to
    config_path: str = ""  # a yaml file of MindSpore's model zoo with other defaults, there or beside the program
    epoch_size: Count = 1
    train_steps: int = 0  # wins over epoch_size
    batch_size: Count = 32  # samples of one rank in one forward pass
    accumulation_steps: Count = 1  # forward passes per optimizer step
    global_batch: int = 0  # samples of all ranks in one optimizer step; decides accumulation_steps when given
    do_shuffle: bool = True
    seed: Seed = 1
    eval_steps: int = 0  # optimizer steps between evaluations; 0: only at the end, unless eval_interval says otherwise
    eval_interval: int = 0  # the same in epochs
    save_checkpoint: bool = True
    save_checkpoint_steps: int = 0  # optimizer steps between checkpoints; 0: none, unless save_checkpoint_epochs says otherwise
    save_checkpoint_epochs: int = 0  # the same in epochs
    save_checkpoint_num: Count = 1  # how many are kept
    log_steps: int = 50  # optimizer steps between losses that are told
    timer_warmup: Annotated[int, Range(-1)] = -1  # steps before throughput counts; -1: as the job file says, else a tenth


def read(kind: type[Settings], words: Sequence[str], say: Callable[[str], None] | None = None) -> Settings:
    """The settings of a workload from its command line, over AISBench's variables, over config_path, over its own defaults."""
    say = say or (print if seat.rank() == 0 else _quiet)
    given = {SYNONYMS.get(name, name): text for name, text in _pairs(words)}
    types, values = _types(kind), _of_file(kind, given, say)
    for variable, name in VARIABLES.items():
        if os.environ.get(variable):
            values[name] = _value(types, name, os.environ[variable])
    for name, text in given.items():
        if name in types:
            values[name] = _value(types, name, text)
        elif name in WITHOUT_MEANING or name in OF_NETWORKS:
            say(PASSED_OVER.format(name))
        else:
            raise Wrong(f"There is no label `{name}`. {_hint(kind, name)}")
    if "accumulation_steps" in given and values.get("global_batch"):
        say("label accumulation_steps is passed over, since global_batch decides")
    return _checked(kind(**values))


def run(main: Callable[[], int]) -> None:
    """Ends the program with what `main` returns; with 2 and one message where the user can put something right.

    It ends at once: threads of PyTorch's process groups, which nothing ends as long as a DistributedDataParallel has been, may
    still want Python while it is taken down, and abort.
    """
    code = outcome(main)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def outcome(main: Callable[[], int]) -> int:
    """The exit code of a program whose errors are told."""
    try:
        return main()
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """`--name=value`, `--name value` and a bare `--name`, which is true."""
    pairs: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Wrong(f"`{word}` is no label. Labels are written --name=value.")
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        pairs.append((name.replace("-", "_"), value))
    return pairs


def _of_file(kind: type[Common], given: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Any]:
    """What a file of the model zoo says about settings that exist here; paths and files are the command line's."""
    told, types = given.get("config_path", ""), _types(kind)
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), os.path.basename(told))
    path = next((path for path in (told, beside) if os.path.isfile(path)), "")
    if not path:
        if told:
            say(f"config_path names {told}, which is not here: it is passed over")
        return {}
    found = zoo.settings(path, {name: given.get(name, "") for name, wanted in types.items() if wanted is str})
    own = ("config_path", "data_url", "data_path", "train_url", "width")  # to the model zoo a width is that of an image
    named = {SYNONYMS.get(name, name): text for name, text in found.items()}
    for name in named:
        if name not in types and name not in given and name not in OF_NETWORKS:
            say(PASSED_OVER.format(name))
    try:
        return {name: _value(types, name, text) for name, text in named.items() if name in types and name not in own}
    except Wrong as wrong:
        raise Wrong(f"{path}: {wrong}") from None


def _types(kind: type[Common]) -> dict[str, type]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _value(types: Mapping[str, type], name: str, text: str) -> Any:
    wanted = types[name]
    try:
        if wanted is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        return wanted(text)
    except (KeyError, ValueError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}[wanted]
        raise Wrong(f"Label {name} is `{text}`. It takes {words}.") from None


def _checked(settings: Settings) -> Settings:
    """Numbers that can be meant; the model zoo writes -1 for no number of steps."""
    settings.train_steps = max(0, settings.train_steps)
    for name, wanted in get_type_hints(type(settings), include_extras=True).items():
        value, numbers = getattr(settings, name), next(iter(getattr(wanted, "__metadata__", ())), Range())
        if type(value) is float and not math.isfinite(value):
            raise Wrong(f"Label {name} is {value}. It takes a number.")
        if type(value) in (int, float) and value not in numbers:
            raise Wrong(f"Label {name} is {value}. It takes a number {numbers}.")
    return settings


def _hint(kind: type[Common], name: str) -> str:
    known = [*_types(kind), *SYNONYMS, *WITHOUT_MEANING, *OF_NETWORKS]
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean `{near[0]}`?" if near else f"There are {', '.join(sorted(_types(kind)))}."


def _quiet(text: str) -> None:
    """Ranks other than 0 say nothing that rank 0 says."""
