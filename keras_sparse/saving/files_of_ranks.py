"""One file for all ranks: rank 0 writes it, the others send what they have."""

import contextlib
import contextvars
import pathlib
import tempfile

from keras_sparse.distribute.collectives import gather_objects
from keras_sparse.distribute.runtime import error_prefix
from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.runtime import size

# Whether ranks are writing one file together, within `file_of_rank_0`.
_is_shared: contextvars.ContextVar[bool] = contextvars.ContextVar("is_shared", default=False)


@contextlib.contextmanager
def file_of_rank_0(path):
    """While this is entered, all ranks save a model, of which rank 0 writes the file.

    Yields:
        The path to save to: that on rank 0, on others one that is removed again.
    """
    token = _is_shared.set(True)
    try:
        if rank() == 0:
            yield path
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield str(pathlib.Path(folder, pathlib.Path(path).name))
    finally:
        _is_shared.reset(token)


def writes_nothing():
    """Whether this rank is in `file_of_rank_0` without being rank 0."""
    return _is_shared.get() and rank() != 0


def check_one_file_for_all():
    """Raises the same RuntimeError on all ranks unless all are in `file_of_rank_0`."""
    if size() > 1 and not all(gather_objects(_is_shared.get(), "check_one_file_for_all")):
        raise RuntimeError(
            f"{error_prefix()}A model whose tables are spread over ranks must be saved by "
            "`model.save` or `model.save_weights`, on all ranks: then rank 0 alone writes the file"
        )
