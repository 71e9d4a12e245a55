"""Exceptions: one class per status of the C ABI, each also of the built-in class that fits."""


class QuernError(RuntimeError):
    """Base of all errors that Quern raises; the message names the node, tensor or byte."""


class InvalidArgument(QuernError, ValueError):
    """The caller or the model is wrong."""


class Unsupported(QuernError, NotImplementedError):
    """Valid, but this version of Quern cannot do it."""


class NotFound(QuernError, FileNotFoundError):
    """A file or name does not exist."""


class CorruptModel(QuernError, ValueError):
    """Bytes that do not follow their format."""


class ResourceExhausted(QuernError, MemoryError):
    """A limit on memory, recursion or counts was reached."""


class Cancelled(QuernError):
    """The run was cancelled."""


class IoError(QuernError, OSError):
    """The operating system refused."""


class InternalError(QuernError):
    """A fault of Quern."""


_OF_STATUS = {
    1: InvalidArgument,
    2: Unsupported,
    3: NotFound,
    4: CorruptModel,
    5: ResourceExhausted,
    6: Cancelled,
    7: IoError,
    8: InternalError,
}


def of_status(status):
    """The class for a quern_status."""
    return _OF_STATUS.get(status, InternalError)
