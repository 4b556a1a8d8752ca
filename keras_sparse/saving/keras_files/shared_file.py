"""One file for all ranks: rank 0 writes it, the others send what they have."""

import contextlib
import pathlib
import tempfile

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import raise_on_all_ranks
from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.file_context import in_file_context


class _SharedFile:
    """A file that ranks write together.

    Attributes:
        has_failed: Boolean. Whether all ranks know that it has.
    """

    has_failed = False


# Ranks tell each other how it went before each table and at the end, all under one name: a rank
# that fails in between goes to the end at once, and is heard there by those that come to a table.
_NAME = "keras_sparse.rank_0_file"


@contextlib.contextmanager
def rank_0_file(path):
    """While this is entered, all ranks save a model, of which rank 0 writes the file.

    An error on one rank, wherever it comes, becomes an error on all. What is done inside must not
    wait for other ranks, but in `table_of_all_ranks`.

    Yields:
        The path to save to: that on rank 0, on others one that is removed again.
    """
    shared = _SharedFile()
    failure = None
    try:
        with in_file_context(shared_file=shared), _path_of_rank(path) as path_of_rank:
            yield path_of_rank
    except Exception as error:
        failure = error
    if shared.has_failed and failure is not None:
        raise failure
    raise_on_all_ranks(failure, _NAME)


@contextlib.contextmanager
def _path_of_rank(path):
    if rank() == 0:
        yield path
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield str(pathlib.Path(folder, pathlib.Path(path).name))


@contextlib.contextmanager
def table_of_all_ranks():
    """While this is entered, all ranks save one table: all of them fail there, or none.

    Raises:
        RuntimeError: On all ranks, unless all are in `rank_0_file`.
    """
    shared = file_context().shared_file
    try:
        if size() > 1:
            raise_on_all_ranks(_refusal() if shared is None else None, _NAME)
        yield
    except Exception:
        if shared is not None:
            shared.has_failed = True
        raise


def _refusal():
    return RuntimeError(
        f"{error_prefix()}A model whose tables are spread over ranks must be saved by "
        "`model.save` or `model.save_weights`, on all ranks: then rank 0 alone writes the file. Of "
        "a copy, as by `copy.deepcopy` or `pickle`, Keras makes a file in memory: make another "
        "model, and load what this one has saved"
    )


def writes_nothing():
    """Returns whether this rank is in `rank_0_file` without being rank 0."""
    return file_context().shared_file is not None and rank() != 0
