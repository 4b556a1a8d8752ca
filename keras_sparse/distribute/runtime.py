"""The one place where Horovod is loaded and asked which of how many ranks this process is.

A plain process is rank 0 of 1 and needs no Horovod.
"""

import functools
import os
import sys

# One of these says that a launcher started this process as one of several ranks.
_LAUNCHERS = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_CYCLE_TIME = "HOROVOD_CYCLE_TIME"
# Milliseconds between two looks of Horovod at what the ranks have ready. A step has a few small
# exchanges, one after the other, each of which waits for the next look: Horovod's own default of
# 1 would cost more than they do. But each look is a message to all ranks and back, also
# while nothing is ready: with 0.1 that takes an eighth of the one core that a rank may have.
_SHORT_CYCLE = "0.3"


def init():
    """Joins the other ranks, if a launcher such as `horovodrun` started this process with others.

    To call it again does nothing, and what needs it calls it by itself. In a plain process there is
    nothing to join: it is rank 0 of 1, and Horovod is not needed.

    Raises:
        ImportError: A launcher started several ranks and Horovod is not installed.

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
    """Returns how many processes train together."""
    return _runtime().size()


def local_rank():
    """Returns the number of this process among those of its machine, from 0."""
    return _runtime().local_rank()


def local_size():
    """Returns how many of the processes are on this machine."""
    return _runtime().local_size()


def horovod():
    """Returns the module `horovod.tensorflow`, once it is initialised.

    Raises:
        RuntimeError: There is one rank only, which has nothing to exchange.
    """
    runtime = _runtime()
    if isinstance(runtime, _OneRank):
        raise RuntimeError("Horovod must not be asked for where there is one rank only")
    return runtime


def error_prefix():
    """Returns what messages of errors begin with: `"[rank 3 of 8] "`, or nothing on one rank."""
    return _prefix_of(_runtime())


def _prefix_of(runtime):
    return "" if runtime.size() == 1 else f"[rank {runtime.rank()} of {runtime.size()}] "


class _OneRank:
    """What Horovod would say of a plain process."""

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
    # These need TensorFlow, which Horovod has loaded by now; the planner does without.
    from keras_sparse.distribute.last_words import explain_uncaught_errors
    from keras_sparse.ops._native import set_error_prefix

    set_error_prefix(_prefix_of(runtime))
    explain_uncaught_errors(_prefix_of(runtime))
    return runtime


def _join():
    initialised = sys.modules.get("horovod.tensorflow")
    if initialised is not None and initialised.is_initialized():
        return initialised
    launched = {name: os.environ[name] for name in _LAUNCHERS if os.environ.get(name, "1") != "1"}
    if not launched:
        return _OneRank()
    os.environ.setdefault(_CYCLE_TIME, _SHORT_CYCLE)
    try:
        import horovod.tensorflow as module
    except ImportError as error:
        raise ImportError(
            "Several ranks need Horovod. Install it with `python -m keras_sparse.install_horovod`. "
            f"Received: {launched}, and no package horovod"
        ) from error
    module.init()
    return module
