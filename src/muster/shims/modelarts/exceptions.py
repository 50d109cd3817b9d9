"""What a call of the service may end with."""


class ModelArtsError(RuntimeError):
    """The service refused a request, or cannot be reached; `error_code` is the service's own, such as ModelArts.2763."""

    def __init__(self, message: str, error_code: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.error_msg = message
        self.error_code = error_code
        self.status = status
