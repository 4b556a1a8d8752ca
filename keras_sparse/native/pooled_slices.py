import tensorflow as tf

from keras_sparse.native.gradients import merge_gradients


class PooledSlices(tf.IndexedSlices):
    """Holds the gradient of a table whose rows were pooled, joined or rounded.

    TensorFlow and Keras use it as `tf.IndexedSlices` with one sum per distinct id, and with the
    further entries that `max_entries` allows; or with one float32 gradient per row if rows were
    only rounded. These slices are computed when `values` or `indices` is first read. The sparse
    optimizers read the bags instead and sum in the native update, which avoids the largest tensor
    of a batch.

    Args:
        ids: int64 tensor of shape `(num_ids,)`.
        output_grads: Tensor of shape `(num_bags, output_dim)`, or wider (see `columns`), in the
            dtype of the looked-up rows: float32, float16 or bfloat16. Sums are float32.
        row_splits: int64 tensor of shape `(num_bags + 1,)`, or `(0,)` if rows were not pooled.
        weights: float32 tensor of shape `(num_ids,)`, or `(0,)` for weights of 1.
        combiner: `"sum"`, `"mean"` or `"sqrtn"`, or `"none"` if rows were not pooled.
        dense_shape: int64 tensor of shape `(2,)`.
        columns: Pair of integers `(first, number)`: the columns of `output_grads` that belong to
            this table. Defaults to `None`: all columns.
        device: String. Device of the table, on which sums are computed. Defaults to `"CPU:0"`.
        max_entries: Integer. Largest number of entries of an id. An id has as many entries as it
            occurs, up to this number: the first with the sum and the others with -0. Defaults to 1.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 2, initializer="ones")
    >>> with tf.GradientTape() as tape:
    ...     rows = keras_sparse.ops.embedding_lookup_sparse(table, tf.ragged.constant([[3, 3, 5]]))
    ...     loss = tf.reduce_sum(rows)
    >>> gradient = tape.gradient(loss, table.value)
    >>> isinstance(gradient, keras_sparse.ops.PooledSlices), gradient.indices.numpy()
    (True, array([3, 5]))
    """

    def __init__(
        self,
        ids,
        output_grads,
        row_splits,
        weights,
        combiner,
        dense_shape,
        columns=None,
        device="CPU:0",
        max_entries=1,
    ):
        self.ids = ids
        self.output_grads = output_grads
        self.row_splits = row_splits
        self.weights = weights
        self.combiner = combiner
        self.columns = columns
        self._device = device
        self._max_entries = max_entries
        self._dense_shape = dense_shape
        self._merged = None

    # The base class reads these two wherever it needs the slices.

    @property
    def _indices(self):
        return self._merge()[0]

    @property
    def _values(self):
        return self._merge()[1]

    def _merge(self):
        if self._merged is not None:
            return self._merged
        if tf.is_symbolic_tensor(self.output_grads):
            # In the gradient's own graph, so that a branch that reads the slices first does not
            # keep them to itself.
            with self.output_grads.graph.as_default():
                self._merged = self._sums()
        elif tf.executing_eagerly():
            self._merged = self._sums()
        else:
            return self._sums()  # of this graph, which must not outlive it here
        return self._merged

    def _sums(self):
        if self.combiner == "none" and self.columns is None:
            # Rows that were rounded alone: by ops that have gradients of their own.
            return tf.identity(self.ids), tf.cast(self.output_grads, tf.float32)
        ids, sums = merge_gradients(
            [self.ids],
            [self.output_grads],
            [self.row_splits],
            [self.weights],
            [self.combiner],
            None if self.columns is None else [self.columns],
            self._device,
            [self._max_entries],
        )
        return ids[0], sums[0]
