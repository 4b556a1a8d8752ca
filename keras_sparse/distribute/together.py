import contextlib

from keras_sparse.distribute.collectives import gather_objects
from keras_sparse.distribute.runtime import error_prefix
from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.runtime import size


@contextlib.contextmanager
def together(name):
    """While this is entered, an error on one rank becomes an error on all.

    At the end ranks tell each other how it went. Where it went well on a rank, that raises the
    error of the first rank that failed, of the same class as far as it is made from a message
    alone. So what is done inside must not wait for other ranks.

    Args:
        name: String, the same on all ranks.
    """
    if size() == 1:
        yield
        return
    failure = None
    try:
        yield
    except Exception as error:
        failure = error
    told = None if failure is None else (type(failure), str(failure))
    of_ranks = gather_objects(_transportable(told), f"keras_sparse.together.{name}")
    if failure is not None:
        raise failure
    for other, theirs in enumerate(of_ranks):
        if theirs is not None and other != rank():
            kind, message = theirs
            raise kind(f"{error_prefix()}rank {other} has failed: {message}")


def _transportable(told):
    """The class as one that every rank can make from a message."""
    if told is None:
        return None
    kind, message = told
    module = kind.__module__
    is_ours = module.startswith("keras_sparse.")
    if not (is_ours or (module == "builtins" and not issubclass(kind, UnicodeError))):
        kind = RuntimeError
    return kind, message
