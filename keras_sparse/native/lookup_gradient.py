"""The gradient of the native lookup, registered with TensorFlow for the op itself.

The op takes the anchors of the trained tables, whose gradients the tables' are, as inputs that it
does not read.
"""

import itertools

import tensorflow as tf
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph

from keras_sparse.native import library
from keras_sparse.native.on_cpu import constant
from keras_sparse.native.on_cpu import on_cpu
from keras_sparse.native.pooled_slices import PooledSlices


def gradient_rows(variable):
    """Returns how many rows the gradient of an embedding variable says it has, an integer.

    A dynamic table counts as having the most there can be: to make its gradient dense by mistake is
    then an error, whatever its keys are.
    """
    return 2**63 - 1 if variable.is_dynamic else variable.input_dim


def gradient_dims(variable):
    """Returns the shape that the gradient of an embedding variable says it has, two integers."""
    return gradient_rows(variable), variable.output_dim


def max_entries(table):
    """Returns how many entries of an id a table's gradient may have once it is merged, an integer:
    see `merge_gradients`.

    Args:
        table: `EmbeddingVariable`, or layer of one.
    """
    return 1 if table.admission is None else table.admission.max_entries


def shape_tensor(num_rows, output_dim):
    """Returns the dimensions of a gradient as its `dense_shape` has them."""
    return constant((num_rows, output_dim), tf.int64)


def joined_columns(output_dims):
    """Returns where the rows of each input are in a joined output: `(first column, number)`."""
    firsts = itertools.accumulate(output_dims[:-1], initial=0)
    return list(zip(firsts, output_dims, strict=True))


@tf.RegisterGradient("KerasSparseLookup")
def _gradient(op, *grads):
    call = _Lookup(op)
    if call.trained:
        _refuse_to_leave_control_flow(op)
    # An output that is not used comes with zeros, but for the versions, which have no gradient.
    row_grads = [tf.convert_to_tensor(grad) for grad in grads[:-1]]
    handles_ids_and_splits = [None] * (3 * call.num_tables)
    return [*handles_ids_and_splits, *call.weight_grads(row_grads), *call.table_grads(row_grads)]


def _refuse_to_leave_control_flow(op):
    """Raises where the gradient of a `tf.cond` or loop would carry out that of a lookup in it: such
    a gradient has a fixed shape, and the rows of a lookup have none.
    """
    graph = getattr(op, "graph", None)  # `None` where the op ran eagerly
    if isinstance(graph, ControlFlowFuncGraph) and graph is not tf.compat.v1.get_default_graph():
        raise NotImplementedError(
            "The gradient of a lookup inside `tf.cond`, `tf.map_fn` or a loop of a tf.function "
            "must be taken inside too: put the `tf.GradientTape` there, or look up before it and "
            f"use the rows inside. Received: lookup '{op.name}' in '{graph.name}'"
        )


class _Lookup:
    """The inputs, outputs and attributes of a lookup op."""

    def __init__(self, op):
        self.combiners = [tf.compat.as_str(each) for each in op.get_attr("combiners")]
        self.output_dims = op.get_attr("output_dims")
        self.gradient_rows = op.get_attr("gradient_rows")
        self.trained = op.get_attr("trained")
        self.weighted = op.get_attr("weighted")
        self.num_tables = n = len(self.combiners)
        self.max_entries = op.get_attr("max_entries") or [1] * n
        is_joined = op.get_attr("num_outputs") < n
        self.columns = joined_columns(self.output_dims) if is_joined else [None] * n
        self.handles, self.ids, self.row_splits, self.weights = (
            op.inputs[begin : begin + n] for begin in range(0, 4 * n, n)
        )
        self.versions = op.outputs[-1]

    def _grads_of_tables(self, row_grads):
        """The gradient that has each table's."""
        return row_grads if self.columns[0] is None else row_grads * self.num_tables

    def table_grads(self, row_grads):
        grads = self._grads_of_tables(row_grads)
        return [self._as_slices(i, grads[i]) for i in self.trained]

    def _as_slices(self, i, grad):
        shape = shape_tensor(self.gradient_rows[i], self.output_dims[i])
        is_own = self.columns[i] is None and grad.dtype == tf.float32
        if self.combiners[i] != "none" or not is_own:
            bags = (self.row_splits[i], self.weights[i], self.combiners[i])
            device = _device_of(self.handles[i])
            return PooledSlices(
                self.ids[i], grad, *bags, shape, self.columns[i], device, self.max_entries[i]
            )
        ids = self.ids[i]
        if not tf.executing_eagerly():
            # A tape outside of a tf.function builds the gradient in a graph of its own, where a
            # tensor of the forward graph must come in through an op to be returned.
            ids = tf.identity(ids)
        return tf.IndexedSlices(grad, ids, shape)

    def weight_grads(self, row_grads):
        """Returns the gradient of each table's weights, `None` where it has none."""
        grads = [None] * self.num_tables
        if not self.weighted:
            return grads

        def of_weighted(a_list):
            return [a_list[i] for i in self.weighted]

        made = library.lib.keras_sparse_lookup_weights_grad(
            handles=of_weighted(self.handles),
            ids=of_weighted(self.ids),
            row_splits=of_weighted(self.row_splits),
            weights=of_weighted(self.weights),
            combiners=of_weighted(self.combiners),
            output_dims=of_weighted(self.output_dims),
            output_grads=of_weighted(self._grads_of_tables(row_grads)),
            columns=[each[0] for each in of_weighted(self.columns) if each is not None],
            versions=_gather(self.versions, self.weighted),
        )
        for i, grad in zip(self.weighted, made, strict=True):
            grads[i] = grad
        return grads


def _device_of(handle):
    """Returns the name of the device that a table is on; the CPU's where a graph does not say."""
    while tf.is_symbolic_tensor(handle):
        captures = getattr(handle.graph, "captures", ())
        handle = next((outer for outer, inner in captures if inner is handle), None)
    return "CPU:0" if handle is None else handle.device


@on_cpu
def _gather(versions, places):
    return tf.gather(versions, places)
