import tensorflow as tf

from keras_sparse import checks
from keras_sparse.ops import _native
from keras_sparse.ops.merge_gradients import fill_in_absent
from keras_sparse.ops.pooled_slices import PooledSlices
from keras_sparse.ops.stage_lookups import collected_lookups

COMBINERS = ("sum", "mean", "sqrtn")


# AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
@tf.autograph.experimental.do_not_convert
def lookup(variables, ids, row_splits=None, weights=None, combiners=None):
    """Reads rows of several tables in one native op, pooled or one by one.

    An empty bag reads as zeros. Differentiable in the variables (`tape.gradient` gives
    `tf.IndexedSlices`, for pooled rows `PooledSlices`) and in the weights.

    Args:
        variables: List of `EmbeddingVariable`.
        ids: List of int64 tensors of shape `(num_ids,)`, one a variable.
        row_splits: List of int64 tensors of shape `(num_bags + 1,)`: bag i pools the ids from
            `row_splits[i]` to `row_splits[i + 1]`. `None` where rows are not pooled. Defaults to
            `None` for all.
        weights: List of float32 tensors of shape `(num_ids,)`: what each row counts in its bag.
            `None` for ones. Defaults to `None` for all.
        combiners: List of `"sum"`, `"mean"` (of weighted rows, over the sum of the weights) or
            `"sqrtn"` (over the root of the sum of their squares); `None` where rows are not pooled.
            Defaults to `None` for all.

    Returns:
        List of float32 tensors: `(num_bags, output_dim)` where pooled, otherwise
        `(num_ids, output_dim)`.

    Raises:
        tf.errors.InvalidArgumentError: An id is outside a static table. Names table, position and
            value. With `out_of_range="zero"` its row is zeros instead.
        tf.errors.FailedPreconditionError: The gradient of weights is taken after a table was
            updated: it needs the rows as they were.
        ValueError: The lists differ in length, or weights and ids of a table do.
        TypeError: Ids are not int64.
        NotImplementedError: Under a `tf.distribute` strategy.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(10, 4, initializer="ones")
    >>> rows, = lookup([table], [tf.constant([3, 3, 5], tf.int64)],
    ...                row_splits=[tf.constant([0, 2, 3], tf.int64)], combiners=["sum"])
    >>> rows.numpy()[:, 0]
    array([2., 1.], dtype=float32)
    """
    refuse_strategies("looked up")
    lists = {"variables": variables, "ids": ids}
    lists |= {"row_splits": row_splits, "weights": weights, "combiners": combiners}
    checks.same_length({name: a_list for name, a_list in lists.items() if a_list is not None})
    if not variables:
        return []
    ids = [_check_ids(i) for i in ids]
    weighted = [i for i, weight in enumerate(weights or ()) if weight is not None]
    for i in weighted:
        _check_weights(weights[i], ids[i])
    row_splits, weights, combiners = fill_in_absent(len(variables), row_splits, weights, combiners)
    collected = collected_lookups()
    are_born = all(variable.native is not None for variable in variables)
    if collected is not None and are_born:
        names = ("variables", "ids", "row_splits", "weights", "combiners")
        collected.append(
            dict(zip(names, (variables, ids, row_splits, weights, combiners), strict=True))
        )
    if collected is not None or not are_born:
        output_dims = [variable.output_dim for variable in variables]
        return zero_rows(output_dims, ids, row_splits, combiners)
    return _Call(variables, ids, row_splits, weights, combiners, weighted).rows()


def _check_ids(ids):
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
            "`weights` must have one number an id. Received: weights of shape "
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


def zero_rows(output_dims, ids, row_splits, combiners):
    """Zeros of the shape of a lookup's outputs, where nothing is looked up: as in Keras' dry run of
    a model that is being built.
    """
    counts = [
        tf.size(i) if combiner == "none" else tf.size(splits) - 1
        for i, splits, combiner in zip(ids, row_splits, combiners, strict=True)
    ]
    return [tf.zeros((count, dim)) for count, dim in zip(counts, output_dims, strict=True)]


def gradient_shape(variable):
    """Returns the shape that the gradient of an embedding variable says it has, an int64 tensor.

    A dynamic table counts as having the most rows there can be: to make its gradient dense by
    mistake is then an error, whatever its keys are.
    """
    num_rows = 2**63 - 1 if variable.is_dynamic else variable.input_dim
    return tf.constant((num_rows, variable.output_dim), tf.int64)


class _Call:
    """One call's tensors, the native op that reads the tables for it, and the gradient of that."""

    def __init__(self, variables, ids, row_splits, weights, combiners, weighted):
        self.variables = variables
        self.ids = ids
        self.row_splits = row_splits
        self.weights = weights
        self.combiners = combiners
        self.trained = [i for i, variable in enumerate(variables) if variable.trainable]
        self.weighted = weighted

    def rows(self):
        if not self.trained and not self.weighted:
            # A tape outside of a tf.function looks for the gradient of every op in it.
            rows = _native.lib.keras_sparse_lookup(**self._inputs()).rows
            return [tf.stop_gradient(each) for each in rows]

        @tf.custom_gradient
        def rows_of(*anchors_and_weights):
            rows, versions = _native.lib.keras_sparse_lookup(**self._inputs())

            def gradient(*row_grads):
                grads = [tf.convert_to_tensor(grad) for grad in row_grads]
                return self._table_grads(grads) + self._weight_grads(grads, versions)

            return list(rows), gradient

        anchors = [tf.convert_to_tensor(self.variables[i].value) for i in self.trained]
        return rows_of(*anchors, *(self.weights[i] for i in self.weighted))

    def _inputs(self, places=None):
        """What the native ops take, for the tables at these places; all by default."""
        places = range(len(self.variables)) if places is None else places
        variables = [self.variables[i] for i in places]
        return {
            "handles": [variable.native for variable in variables],
            "ids": [self.ids[i] for i in places],
            "row_splits": [self.row_splits[i] for i in places],
            "weights": [self.weights[i] for i in places],
            "combiners": [self.combiners[i] for i in places],
            "output_dims": [variable.output_dim for variable in variables],
        }

    def _table_grads(self, grads):
        return [self._as_slices(i, grads[i]) for i in self.trained]

    def _as_slices(self, i, grad):
        variable = self.variables[i]
        shape = gradient_shape(variable)
        if self.combiners[i] != "none":
            bags = (self.row_splits[i], self.weights[i], self.combiners[i])
            return PooledSlices(self.ids[i], grad, *bags, shape)
        # A tape outside of a tf.function builds the gradient in a graph of its own, where a tensor
        # of the forward graph must come in through an op to be returned.
        return tf.IndexedSlices(grad, tf.identity(self.ids[i]), shape)

    def _weight_grads(self, grads, versions):
        if not self.weighted:
            return []
        return list(
            _native.lib.keras_sparse_lookup_weights_grad(
                **self._inputs(self.weighted),
                output_grads=[grads[i] for i in self.weighted],
                versions=tf.gather(versions, self.weighted),
            )
        )
