"""Loads Horovod and tells this process its rank; no other module does either.

A plain process is rank 0 of 1 and needs no Horovod.
"""

import functools
import os
import sys
import warnings

from keras_sparse.distribute.ranks import launcher_environment
from keras_sparse.distribute.ranks.rank_gpu import take_gpu
from keras_sparse.distribute.ranks.uncaught_errors import explain_uncaught_errors

_STALL_SECONDS = "KERAS_SPARSE_STALL_SECONDS"


def init():
    """Joins the other ranks if a launcher such as `horovodrun` started several.

    On a machine with GPUs and several ranks, each rank then sees only the GPU of its `local_rank`.
    If there are more ranks than GPUs, ranks share them, and TensorFlow allocates memory as needed.
    A choice by `tf.config.set_visible_devices` is kept. Call `init` before TensorFlow uses a GPU.

    Further calls do nothing, and functions that need ranks call it themselves. A plain process is
    rank 0 of 1 and needs no Horovod.

    Raises:
        ImportError: A launcher started several ranks, and Horovod is not installed.
        ValueError: The environment variable `KERAS_SPARSE_STALL_SECONDS` is not a number of
            seconds.

    Example:
    >>> import keras_sparse.distribute as ksd
    >>> ksd.init()
    >>> ksd.rank(), ksd.size()
    (0, 1)
    """
    _runtime()


def rank():
    """Returns the number of this process, from 0 to `size() - 1`."""
    return _runtime().rank()


def size():
    """Returns the number of processes of the training."""
    return _runtime().size()


def local_rank():
    """Returns the number of this process among the processes of its machine, from 0.

    Example:
    >>> keras_sparse.distribute.local_rank()
    0
    """
    return _runtime().local_rank()


def local_size():
    """Returns the number of processes of the training on this machine.

    Example:
    >>> keras_sparse.distribute.local_size()
    1
    """
    return _runtime().local_size()


def horovod():
    """Returns the initialized module `horovod.tensorflow`.

    Raises:
        RuntimeError: There is only one rank, which has nothing to exchange.
    """
    runtime = _runtime()
    if isinstance(runtime, _OneRank):
        raise RuntimeError("Horovod must be used on several ranks only. Received: 1 rank")
    return runtime


def error_prefix():
    """Returns the prefix of this rank's messages: `"[rank 3 of 8] "`, or `""` on one."""
    return _prefix_of(_runtime())


def folder_of_rank(folder):
    """Returns the subfolder of this rank; on one rank, the folder itself.

    Args:
        folder: String. Path of the folder that all ranks were given.
    """
    return folder if size() == 1 else os.path.join(folder, f"rank-{rank()}-of-{size()}")


def _prefix_of(runtime):
    return "" if runtime.size() == 1 else f"[rank {runtime.rank()} of {runtime.size()}] "


class _OneRank:
    """Answers as Horovod would of a plain process."""

    def rank(self):
        return 0

    def size(self):
        return 1

    def local_rank(self):
        return 0

    def local_size(self):
        return 1


@functools.cache
def _runtime():
    runtime = _join()
    if runtime.size() == 1:
        return _OneRank()
    # This needs TensorFlow, which Horovod has loaded by now; the planner does without.
    from keras_sparse.native.library import set_error_prefix

    set_error_prefix(_prefix_of(runtime))
    explain_uncaught_errors(_prefix_of(runtime))
    take_gpu(runtime.local_rank(), runtime.local_size(), has_nccl=bool(runtime.nccl_built()))
    stall_seconds()  # raises for a wrong value before anything waits
    return runtime


def stall_seconds():
    """Returns the seconds after which ranks that wait raise an error; 0 for no limit."""
    text = os.environ.get(_STALL_SECONDS) or "30"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError(
            f"The environment variable {_STALL_SECONDS} must be a number of seconds, or 0 for no "
            f"limit. Received: {_STALL_SECONDS}='{text}'"
        )
    return seconds


def _join():
    initialised = sys.modules.get("horovod.tensorflow")
    if initialised is not None and initialised.is_initialized():
        return initialised
    launched = launcher_environment.sizes(launcher_environment.LAUNCHERS)
    if not launched:
        if not any(name in os.environ for name in launcher_environment.LAUNCHERS):
            _warn_of_others(launcher_environment.sizes(launcher_environment.OTHER_LAUNCHERS))
        return _OneRank()
    try:
        import horovod.tensorflow as module
    except ImportError as error:
        raise ImportError(
            "Several ranks need Horovod. Install it with `python -m keras_sparse install-horovod`. "
            f"Received: {launched}, and no package horovod"
        ) from error
    module.init()
    if module.size() == 1:
        _warn_of_others(launched)
    return module


def _warn_of_others(sizes):
    """Warns if a launcher seems to have started others that Horovod does not know of."""
    if sizes:
        warnings.warn(
            "This process trains alone, as rank 0 of 1, although a launcher seems to have "
            "started several. Each would train alone and write the same files. Start them with "
            f"`horovodrun -np {next(iter(sizes.values()))} python ...`, or unset the launcher's "
            f"variables if each process is meant to train alone. Received: {sizes}",
            stacklevel=2,
        )
