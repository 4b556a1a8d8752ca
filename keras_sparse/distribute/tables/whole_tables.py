import os

import numpy as np

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.distribute.tables.distributed_table import DistributedTable
from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


def get_whole_tables(tables, all_ranks):
    """Returns the rows of static tables, whole. All ranks must call it.

    Args:
        tables: List of `LocalTable` and `DistributedTable`.
        all_ranks: Boolean. Whether each rank gets them.

    Returns:
        List of float32 arrays of shape `(input_dim, output_dim)`; of `None` on ranks that get
        nothing.
    """
    _refuse_dynamic(tables, "get_weights")
    gets = all_ranks or rank() == 0
    return [_get(table, all_ranks, gets) for table in tables]


def _get(table, all_ranks, gets):
    if not isinstance(table, DistributedTable):
        return table.numpy() if gets else None
    shape = table.input_dim if gets else 0, table.output_dim
    with errors_on_all_ranks("get_weights"):  # all of a table may be more memory than rank 0 has
        whole = np.empty(shape, np.float32)
    chunk_rows = max(1, CHUNK_BYTES // (4 * table.output_dim))
    for ids, rows in table.export_rows(chunk_rows, all_ranks):
        whole[ids] = rows
    return whole if gets else None


def set_whole_tables(tables, weights):
    """Writes the rows of static tables; each rank takes its part. All ranks must call it.

    Args:
        tables: List of `LocalTable` and `DistributedTable`.
        weights: List of arrays of shape `(input_dim, output_dim)` and of paths of `.npy` files.

    Raises:
        ValueError: On all ranks, before a table changes, if the weights of one are others.
    """
    _refuse_dynamic(tables, "set_weights")
    with errors_on_all_ranks("set_weights"):
        weights = _checked(tables, weights)
    for table, whole in zip(tables, weights, strict=True):
        if table.local is not None:
            _set(table.local, whole)


def _set(table, whole):
    chunk_rows = max(1, CHUNK_BYTES // (whole.itemsize * whole.shape[1]))
    for first in range(0, len(whole), chunk_rows):
        local_id, rows = first, whole[first : first + chunk_rows]
        if table.part is not None:
            local_id, rows = table.part.cut(first, rows)
        if len(rows) > 0:
            rows = np.array(rows, np.float32)  # read here, where they lie in a file
            table.import_local(np.arange(local_id, local_id + len(rows)), rows)


def _checked(tables, weights):
    """Returns the weights as arrays, those of files mapped into memory."""
    if not isinstance(weights, (list, tuple)) or len(weights) != len(tables):
        got = len(weights) if isinstance(weights, (list, tuple)) else type(weights).__name__
        raise ValueError(
            f"{error_prefix()}`weights` must be a list with the rows of each table, {len(tables)}. "
            f"Received: {got}"
        )
    arrays = []
    for i, (table, whole) in enumerate(zip(tables, weights, strict=True)):
        if isinstance(whole, (str, os.PathLike)):
            whole = _mapped(whole, i)
        whole = np.asarray(whole) if not isinstance(whole, np.ndarray) else whole
        shape = table.input_dim, table.output_dim
        if whole.shape != shape or whole.dtype.kind not in "fiu":
            raise ValueError(
                f"{error_prefix()}`weights` must have the shapes of the whole tables, and be real "
                f"numbers. Received: weights[{i}] of shape {whole.shape} and dtype {whole.dtype} "
                f"for a table of shape {shape}"
            )
        arrays.append(whole)
    return arrays


def _mapped(path, i):
    try:
        return np.load(checks.regular_file(path), mmap_mode="r", allow_pickle=False)
    except (OSError, *PARSER_ERRORS) as error:
        raise ValueError(
            f"{error_prefix()}`weights` must be arrays, or paths of `.npy` files as `numpy.save` "
            f"writes them. Received: weights[{i}]='{path}': {error}"
        ) from error


def _refuse_dynamic(tables, method):
    for i, table in enumerate(tables):
        if table.input_dim is None:
            raise NotImplementedError(
                f"{error_prefix()}`{method}` must be called on a layer of static tables, as the "
                "keys of a dynamic one are not a range. Use `keras_sparse.saving.save_checkpoint`; "
                "for the rows of this rank there is `export` of the layer's `tables`. Received: "
                f"table {i} with input_dim=None"
            )
