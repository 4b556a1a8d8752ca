import enum
from typing import Any
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.ops import resource_variable_ops

from keras_sparse.native import library
from keras_sparse.native.check_tables import check_variables
from keras_sparse.native.check_tables import local_ids
from keras_sparse.native.device_groups import device_groups
from keras_sparse.native.gradients import with_defaults
from keras_sparse.native.lookup_gradient import gradient_rows
from keras_sparse.native.lookup_gradient import max_entries
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.native.staging import collected_lookups
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model
from keras_sparse.saved_model.saved_table import saved_lookup
from keras_sparse.utils import checks


class LookupMode(enum.Enum):
    """The ways in which a lookup can run."""

    SAVED_MODEL = enum.auto()  # reads the tables of a SavedModel, by ops of TensorFlow
    COLLECT = enum.auto()  # passes its arguments to `collect_lookups` and returns zeros
    DRY = enum.auto()  # returns zeros: Keras infers shapes before tables exist, and runs nothing
    RUN = enum.auto()


def lookup_mode(variables):
    """Returns the `LookupMode` of a lookup.

    Keras infers shapes in a graph that it drops afterwards, and creates the variables of new layers
    at the end. A `tf.function` that is called there keeps its trace for later calls, so its lookups
    create the tables that they need.

    Args:
        variables: List of `EmbeddingVariable` that the lookup reads or trains.

    Raises:
        ValueError: As `collected_lookups` raises it.
    """
    if is_for_saved_model():
        return LookupMode.SAVED_MODEL
    collected = collected_lookups()
    for variable in variables:
        if variable.native is None:
            if _is_dropped(tf.compat.v1.get_default_graph()):
                return LookupMode.DRY
            variable.create_early()
    return LookupMode.RUN if collected is None else LookupMode.COLLECT


def _is_dropped(graph):
    """Whether nothing ever runs the graph: it is the one in which Keras infers shapes."""
    # Under another name, tables would only be created earlier.
    return getattr(graph, "name", "").startswith("scratch_graph")


COMBINERS = ("sum", "mean", "sqrtn")
# Dtypes of looked-up rows.
ROW_DTYPES = ("float32", "float16", "bfloat16")


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def lookup(
    variables,
    ids,
    row_splits=None,
    weights=None,
    combiners=None,
    joined=False,
    dtype="float32",
):
    """Looks up rows of several tables in one native op, and optionally pools them.

    An empty bag returns zeros. Differentiable in the variables and in the weights: `tape.gradient`
    returns `tf.IndexedSlices`, or `PooledSlices` for pooled rows.

    Args:
        variables: List of `EmbeddingVariable`.
        ids: List of int64 tensors of shape `(num_ids,)`, one per variable.
        row_splits: List of int64 tensors of shape `(num_bags + 1,)`: bag `i` pools the ids from
            `row_splits[i]` to `row_splits[i + 1]`. `None` for a variable whose rows are not pooled.
            Defaults to `None` for all.
        weights: List of float32 tensors of shape `(num_ids,)`: the weight of each row in its bag.
            `None` stands for weights of 1. Defaults to `None` for all.
        combiners: List of `"sum"`, `"mean"` (divided by the sum of the weights) or `"sqrtn"`
            (divided by the root of the sum of squared weights). `None` for a variable whose rows
            are not pooled. Defaults to `None` for all.
        joined: Boolean. Whether to write the rows of all variables side by side into one tensor;
            each variable must then have the same number of rows or bags. Defaults to `False`.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`, or a dtype of that name. Dtype of the
            result. Rows and their sums are float32 and rounded when they are written. Defaults to
            `"float32"`.

    Returns:
        List of tensors of that dtype, of shape `(num_bags, output_dim)` if pooled and
        `(num_ids, output_dim)` otherwise. With `joined=True`, one tensor of shape
        `(num_bags, sum of the output_dims)`.

    Raises:
        tf.errors.InvalidArgumentError: An id is outside a static table with `out_of_range="error"`,
            or another rank owns the id of a sharded table. The message names table, position and
            value.
        tf.errors.FailedPreconditionError: The gradient of the weights is computed after a table was
            updated: it needs the rows of the lookup.
        ValueError: The lists differ in length, or the weights and ids of a variable do.
        TypeError: Ids are not int64.
        NotImplementedError: The lookup is inside a `tf.distribute` strategy.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 4, initializer="ones")
    >>> rows, = lookup([table], [tf.constant([3, 3, 5], tf.int64)],
    ...                row_splits=[tf.constant([0, 2, 3], tf.int64)], combiners=["sum"])
    >>> rows.numpy()[:, 0]
    array([2., 1.], dtype=float32)
    """
    refuse_strategies("looked up")
    check_variables(variables)
    dtype = checks.dtype(dtype, ROW_DTYPES, "dtype")
    lists = {"variables": variables, "ids": ids}
    lists |= {"row_splits": row_splits, "weights": weights, "combiners": combiners}
    checks.same_length({name: a_list for name, a_list in lists.items() if a_list is not None})
    if not variables:
        if joined:
            raise ValueError(
                "`variables` must not be empty with joined=True. Received: variables=[]"
            )
        return []
    ids = [_check_ids(i) for i in ids]
    are_weighted = [weight is not None for weight in weights or [None] * len(ids)]
    for i, is_weighted in enumerate(are_weighted):
        if is_weighted:
            _check_weights(weights[i], ids[i])
    tables = [variable.table for variable in variables]
    mode = lookup_mode(variables)
    if mode is LookupMode.SAVED_MODEL:
        saved = [table.saved_table for table in tables]
        return saved_lookup(saved, ids, row_splits, weights, combiners, joined, dtype)
    ids = [local_ids(*each) for each in zip(tables, ids, strict=True)]
    splits, weights, combiners = with_defaults(len(ids), row_splits, weights, combiners)
    call = _Call(variables, tables, ids, splits, weights, combiners, are_weighted, joined, dtype)
    if mode is LookupMode.RUN:
        return _run(call)
    return _collect(call) if mode is LookupMode.COLLECT else _dry(call)


@on_cpu
def id_columns(matrix, are_bags):
    """Returns the ids of each feature of a batch, for `lookup`.

    The columns share one buffer, each of them contiguous in it.

    Args:
        matrix: int32 or int64 tensor of shape `(batch_size, num_features)`.
        are_bags: List of booleans, one per feature: whether its ids are bags of one.

    Returns:
        List of int64 tensors of shape `(batch_size,)`, or `(batch_size, 1)` for bags.

    Raises:
        tf.errors.InvalidArgumentError: The matrix has another number of columns.

    Example:
    >>> users, items = id_columns(tf.constant([[3, 8], [5, 8]]), are_bags=[False, False])
    >>> users.numpy(), items.numpy()
    (array([3, 5]), array([8, 8]))
    """
    columns = library.lib.keras_sparse_id_columns(matrix=matrix, N=len(are_bags), are_bags=are_bags)
    return list(columns)


class _Call(NamedTuple):
    """The arguments of a lookup as native ops take them, and which tables have weights."""

    variables: list
    tables: list  # of the variables
    ids: list
    row_splits: list
    weights: list
    combiners: list
    are_weighted: list
    joined: bool
    dtype: str

    def of_tables(self, places):
        """Returns the lookup of the tables at some places, not joined."""
        lists: dict[str, Any] = {
            name: [getattr(self, name)[i] for i in places] for name in self._fields[:-2]
        }
        return self._replace(joined=False, **lists)


def _dry(call):
    output_dims = [table.output_dim for table in call.tables]
    return zero_rows(
        output_dims, call.ids, call.row_splits, call.combiners, call.joined, call.dtype
    )


def _collect(call):
    arguments = call._asdict()
    del arguments["tables"], arguments["are_weighted"]
    collected_lookups().append(arguments)
    return _dry(call)


def _run(call):
    groups = device_groups(call.tables)
    if len(groups) == 1:
        rows = _read(call)
        return rows[0] if call.joined else rows
    rows = [None] * len(call.variables)
    for group in groups:
        for i, each in zip(group, _read(call.of_tables(group)), strict=True):
            rows[i] = each
    return tf.concat(rows, axis=1) if call.joined else rows


def _check_ids(ids):
    if not isinstance(ids, tf.Tensor):
        ids = tf.convert_to_tensor(ids)
    if ids.dtype != tf.int64:
        raise TypeError(
            "`ids` must be int64. Cast them: `tf.cast(ids, tf.int64)`. Received: ids of dtype "
            f"{ids.dtype.name}"
        )
    return ids


def _check_weights(weights, ids):
    if not weights.shape.is_compatible_with(ids.shape):
        raise ValueError(
            "`weights` must have one number per id. Received: weights of shape "
            f"{tuple(weights.shape)}, ids of shape {tuple(ids.shape)}"
        )


def refuse_strategies(what):
    """Raises if a `tf.distribute` strategy other than the default is in force."""
    if tf.distribute.has_strategy():
        strategy = type(tf.distribute.get_strategy()).__name__
        raise NotImplementedError(
            "An embedding variable must be used under the default `tf.distribute` strategy. Leave "
            f"the strategy's scope, and train on one process. Received: {what} under {strategy}"
        )


def zero_rows(output_dims, ids, row_splits, combiners, joined, dtype):
    """Zeros of the shape of a lookup's outputs, where nothing is looked up: as in Keras' dry run of
    a model that is being built.
    """
    counts = [
        tf.size(i) if combiner == "none" else tf.size(splits) - 1
        for i, splits, combiner in zip(ids, row_splits, combiners, strict=True)
    ]
    if joined:
        return tf.zeros((counts[0], sum(output_dims)), dtype)
    return [tf.zeros((count, dim), dtype) for count, dim in zip(counts, output_dims, strict=True)]


def _read(call):
    """Reads by the native op, of tables on one device; its gradient is in `lookup_gradient`. Lists
    have an entry a table, but for what is returned if joined: it has one.
    """
    variables, tables = call.variables, call.tables
    trained = [i for i, variable in enumerate(variables) if variable.trainable]
    anchors = [variables[i].value for i in trained]
    for anchor in anchors:
        # What reading its value would tell a tape, without an op for each table.
        resource_variable_ops.variable_accessed(anchor)
    handles = [table.native for table in tables]
    updated = trained if record.could_possibly_record() else []  # no tape, no update
    read = library.lib.keras_sparse_lookup(
        handles=handles,
        ids=call.ids,
        row_splits=call.row_splits,
        weights=call.weights,
        anchors=[anchor.handle for anchor in anchors],
        num_outputs=1 if call.joined else len(variables),
        out_type=tf.as_dtype(call.dtype),  # a string takes TensorFlow longer
        combiners=call.combiners,
        output_dims=[table.output_dim for table in tables],
        gradient_rows=[gradient_rows(table) for table in tables],
        max_entries=[max_entries(table) for table in tables],
        trained=trained,
        updated=updated,
        weighted=[i for i, is_weighted in enumerate(call.are_weighted) if is_weighted],
    )
    if len(updated) == len(tables) and "GPU" in handles[0].device:
        # The lookup has not waited for the GPU to learn of wrong ids.
        library.lib.keras_sparse_check_lookups(handles=handles, ids=call.ids)
    return list(read.rows)


def checked_lookups(tables):
    """Returns what must have run before a step changes anything, so that no lookup of these tables
    before it has had a wrong id: a list of ops, which is empty where that is known.

    Args:
        tables: List of `EmbeddingVariable`.
    """
    on_gpu = [table.native for table in tables if "GPU" in table.native.device]
    if tf.executing_eagerly() or not on_gpu:
        return []
    return [library.lib.keras_sparse_check_lookups(handles=on_gpu, ids=[])]
