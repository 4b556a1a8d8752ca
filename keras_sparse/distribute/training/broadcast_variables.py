import keras
import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.broadcast_arrays import broadcast_arrays
from keras_sparse.distribute.ranks.broadcast_arrays import broadcast_pieces
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import check_agreement
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.packed_records import packed_records
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import CHUNK_BYTES

_GROUP_BYTES = 16 << 20


def broadcast_variables(variables, root_rank=0):
    """Copies the values of variables from one rank to all ranks.

    Call it between two steps, on all ranks, for the variables of a model and of its optimizer:
    `broadcast_variables([*model.variables, *model.optimizer.variables])`. Embedding variables that
    hold a part of a table stay unchanged, because each rank has its own part. Replicated tables
    receive the rows, slots, steps and waiting keys of the root, and lose rows that the root lacks.
    Keras' seed generators are among the variables of a model, so dropout then drops the same units
    of the first sample on every rank.

    Args:
        variables: List of `keras.Variable`, `tf.Variable` and `EmbeddingVariable`, equal on all
            ranks except for their values. Optimizers must be built on all ranks or on none.
        root_rank: Integer. The rank to copy from. Defaults to 0.

    Raises:
        ValueError: `root_rank` is not a rank, or the variables of two ranks differ in number,
            shape, dtype or settings. All ranks raise it before any value changes.
        TypeError: A variable has another type, or is not numeric.
        RuntimeError: The call is inside a `tf.function`.

    Example:
    >>> keras_sparse.distribute.broadcast_variables(model.variables)
    """
    if checks.not_negative(root_rank, "root_rank") >= size():
        raise ValueError(
            f"{error_prefix()}`root_rank` must be below the number of ranks, {size()}. Received: "
            f"root_rank={root_rank}"
        )
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{error_prefix()}`broadcast_variables` must be called outside of a `tf.function`. "
            "Call it once, before the first step. Received: a call inside a `tf.function`"
        )
    variables = [each for each in variables if getattr(each, "part", None) is None]
    descriptions = [(_describe(each), f"'{_path(each)}'") for each in variables]
    if size() == 1:
        return
    rule = "Variables must have the same order, shapes, dtypes and settings on all ranks"
    check_agreement(descriptions, rule, "variables")
    dense = [each for each in variables if not isinstance(each, EmbeddingVariable)]
    for group in _groups(dense):
        values = broadcast_arrays(
            [np.asarray(_tensor(each)) for each in group], root_rank, "broadcast_variables"
        )
        for variable, value in zip(group, values, strict=True):
            variable.assign(value)
    for variable in variables:
        if isinstance(variable, EmbeddingVariable):
            broadcast_table(variable.table, root_rank)


def _describe(variable):
    if isinstance(variable, EmbeddingVariable):
        return describe_table(variable.table)
    if not isinstance(variable, (keras.Variable, tf.Variable)):
        raise TypeError(
            f"{error_prefix()}`variables` must be Keras or TensorFlow variables. Received: an "
            f"element of type {type(variable).__name__}"
        )
    dtype = tf.as_dtype(variable.dtype)
    if dtype in (tf.string, tf.resource, tf.variant):
        raise TypeError(
            f"{error_prefix()}`variables` must hold numbers. Received: '{_path(variable)}' of "
            f"dtype {dtype.name}"
        )
    return f"{dtype.name} {tuple(variable.shape)}"


def _path(variable):
    return variable.path if isinstance(variable, keras.Variable) else variable.name


def _tensor(variable):
    return variable.value if isinstance(variable, keras.Variable) else variable


def _groups(variables):
    """Yields lists of variables of some megabytes, or of one that is larger."""
    group, num_bytes = [], 0
    for variable in variables:
        group.append(variable)
        num_bytes += tf.as_dtype(variable.dtype).size * int(np.prod(variable.shape))
        if num_bytes >= _GROUP_BYTES:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


def broadcast_table(table, root_rank):
    """Copies the content of a replicated table from one rank to all.

    That is what a checkpoint keeps of it: initial rows, the history of its rule, records as they
    lie in the tiers, and what its admission filter remembers. The table goes on with the same bits
    on all ranks. Rows that the root has not are gone.

    Args:
        table: `LocalTable`, of the same settings on all ranks.
        root_rank: Integer.
    """
    is_root = rank() == root_rank
    state = (table.initial_rows, _history(table)) if is_root else None
    initial_rows, history = broadcast_object(state, root_rank, "broadcast_table.state")
    if not is_root:
        table.set_initial_rows(initial_rows)
        native.restore(table, native.RuleHistory(*history))
        table.saved_state = None  # this rank has saved none of these rows
    for keys, records in broadcast_pieces(_records(table), root_rank, "broadcast_table.rows"):
        if not is_root:
            table.import_(keys, records)
    waiting = table.export_filter(CHUNK_BYTES // 12)
    for keys, counts in broadcast_pieces(waiting, root_rank, "broadcast_table.filter"):
        if not is_root:
            native.import_filter([table], [keys], [counts])


def describe_table(table):
    """Returns what tables must have alike for one to take over the content of another: a string."""
    admission = table.admission
    settings = {
        "input_dim": table.input_dim,
        "output_dim": table.output_dim,
        "rule": table.rule,
        "constants": table.rule_constants,
        "weight_decay": table.rule_weight_decay,
        "slots": table.slot_names,
        "ages": table.metadata.ages,
        "frequencies": table.metadata.frequencies,
        "dtypes": None if table.dtypes.are_float32 else table.dtypes,
        "admission": None if admission is None else admission.layout(),
    }
    return f"table({', '.join(f'{name}={value}' for name, value in settings.items())})"


def _history(table):
    with tf.init_scope():
        (history,) = native.export_history([table])
    return tuple(tensor.numpy() for tensor in history)


def _records(table):
    # A record is up to a few words wider than the row and its slots.
    max_rows = max(1, CHUNK_BYTES // (4 * table.record_floats + 16))
    packed = packed_records(table)
    cursor = 0
    while cursor >= 0:
        keys, records, cursor = native.export_raw(table, cursor, max_rows, False, False)
        cursor = int(cursor)
        if len(keys):
            records = records.numpy()
            yield keys.numpy(), records if packed is None else packed.unpack(records)
