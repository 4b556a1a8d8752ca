import contextlib
import dataclasses

import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.available_memory import missing_memory
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


def copy_table(variable):
    """Returns a copy of an embedding variable: another table with the same rows.

    As a copy of any variable it has no slots, which are the optimizer's. What the admission filter
    remembers, and ages and frequencies of rows, are copied too.

    Args:
        variable: `EmbeddingVariable`.

    Raises:
        RuntimeError: It is called in a `tf.function`.
        NotImplementedError: The table may be larger than memory: it has lower tiers.
        MemoryError: Memory has no room for the copy.
    """
    _check(variable)
    *scopes, name = variable.path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        # Zeros cost nothing, and draw no seed.
        config = dataclasses.replace(
            variable.table.config,
            initializer="zeros",
            seed=None,
            trainable=variable.trainable,
            name=name,
        )
        copy = type(variable)(**vars(config))
    copy.regularizer = variable.regularizer
    copy.table.take_initial_rows(variable.table)
    _copy_content(variable.table, copy.table)
    return copy


def _copy_content(table, copy):
    width = table.output_dim
    chunk_rows = max(1, CHUNK_BYTES // (4 * table.record_floats))
    for piece in table.export_pieces(chunk_rows):
        copy.import_(*piece._replace(records=piece.records[:, :width]))
    for keys, counts in table.export_filter(CHUNK_BYTES // 12):
        with tf.init_scope():
            native.import_filter([copy], [keys], [counts])


def _check(variable):
    if not tf.executing_eagerly():
        raise RuntimeError(
            "A table must be copied outside of a `tf.function`. Received: variable "
            f"'{variable.path}'"
        )
    remedy = (
        "Keep what is to be kept on disk, by `keras.callbacks.ModelCheckpoint(path, "
        "save_best_only=True)` and `model.load_weights(path)`; rows of a static table alone are "
        f"an array in `get_weights`. Received: variable '{variable.path}'"
    )
    if variable.storage.lower_tiers:
        raise NotImplementedError(
            f"A table with lower tiers cannot be copied in memory. {remedy} with "
            f"storage_type='{variable.storage.storage_type}'"
        )
    row_bytes = variable.table.dtypes.record_bytes(variable.output_dim, 0)
    if missing := missing_memory(variable.num_rows * row_bytes):
        raise MemoryError(f"Memory must have room for the copy of a table. {remedy} of {missing}")
