import tensorflow as tf

from keras_sparse.distribute.collectives import alltoall
from keras_sparse.ops import _native
from keras_sparse.ops.lookup_gradient import gradient_shape
from keras_sparse.ops.pooled_slices import PooledSlices


class ExchangeCall:
    """One lookup over ranks: its tensors, and its ops forward and back.

    Args:
        exchange: `Exchange`.
        tables, ids, row_splits, weights, combiners: As in `Exchange.lookup`; lists without gaps.
        weighted: List of the places of the inputs that were given weights.
    """

    def __init__(self, exchange, tables, ids, row_splits, weights, combiners, weighted):
        self.exchange = exchange
        self.layout = exchange.layout
        self.tables = tables
        self.ids = ids
        self.row_splits = row_splits
        self.weights = weights
        self.combiners = combiners
        self.weighted = weighted

    def rows(self, name):
        """Returns the outputs of the lookup.

        Args:
            name: String. What the names of its exchanges begin with.
        """
        trained = self.exchange.trained_variables()

        @tf.custom_gradient
        def rows_of(*anchors_and_weights):
            request, served, words, splits = self._exchange(name)
            reply = {"words": words, "splits": splits, "own_words": served.own_reply}
            rows = _native.lib.keras_sparse_combine_rows(
                **reply,
                reply_rows=request.reply_rows,
                output_dims=self.layout.dims_of(self.tables),
                **self._uses(request),
            )

            def gradient(*row_grads):
                grads = [tf.convert_to_tensor(grad) for grad in row_grads]
                table_grads = self._table_grads(trained, grads, request, served, name)
                return table_grads + self._weight_grads(grads, request, reply)

            return list(rows), gradient

        anchors = [tf.convert_to_tensor(variable.value) for variable in trained]
        return rows_of(*anchors, *(self.weights[i] for i in self.weighted))

    def _exchange(self, name):
        """Returns the request, what was served to other ranks, and the words and splits of the rows
        that came.
        """
        request = _native.lib.keras_sparse_request_rows(**self.inputs(), **self.layout.attributes)
        words, splits = alltoall(request.words, request.splits, f"{name}.ids")
        served = self._serve(words, splits, request.own_words)
        words, splits = alltoall(served.reply, served.reply_splits, f"{name}.rows")
        return request, served, words, splits

    def inputs(self):
        """Returns what the native ops take of the inputs of the lookup, as a dict."""
        return {
            "ids": self.ids,
            "row_splits": self.row_splits,
            "weights": self.weights,
            "combiners": self.combiners,
            "input_tables": self.layout.numbers_of(self.tables),
        }

    def _serve(self, words, splits, own_words):
        return _native.lib.keras_sparse_serve_rows(
            handles=[variable.native for variable in self.exchange.variables],
            words=words,
            splits=splits,
            own_words=own_words,
            pools=self.exchange.pools,
            **self.layout.attributes,
        )

    def _uses(self, request, places=None):
        """What the native ops take of the inputs at these places; all by default."""
        places = range(len(self.ids)) if places is None else places
        return {
            "positions": [request.positions[i] for i in places],
            "position_splits": [request.position_splits[i] for i in places],
            "scales": [request.scales[i] for i in places],
            "weights": [self.weights[i] for i in places],
            "combiners": [self.combiners[i] for i in places],
            "input_tables": self.layout.numbers_of([self.tables[i] for i in places]),
            **self.layout.attributes,
        }

    def _table_grads(self, trained, grads, request, served, name):
        if not trained:
            return []
        returned = _native.lib.keras_sparse_return_gradients(
            output_grads=grads,
            reply_rows=request.reply_rows,
            scale=1 / self.layout.num_ranks,
            **self._uses(request),
        )
        words, splits = alltoall(returned.words, returned.splits, f"{name}.gradients")
        values = _native.lib.keras_sparse_gather_gradients(
            words=words,
            splits=splits,
            own_words=returned.own_words,
            served_rows=served.served_rows,
            output_dims=self.layout.own_dims,
            P=len(self.layout.own_dims),
            **self.layout.attributes,
        )
        if trained[0] is self.exchange.anchor:
            return [no_slices(self.exchange.anchor, tf.size(words, tf.int64))]
        places = {id(variable): p for p, variable in enumerate(self.exchange.variables)}
        grads = []
        for variable in trained:
            p = places[id(variable)]
            row_splits = served.row_splits[p] if self.exchange.pools[p] else None
            grads.append(_slices(variable, values[p], served.ids[p], row_splits))
        return grads

    def _weight_grads(self, grads, request, reply):
        if not self.weighted:
            return []
        return list(
            _native.lib.keras_sparse_combine_rows_weights_grad(
                output_grads=[grads[i] for i in self.weighted],
                **reply,
                reply_rows=request.reply_rows,
                **self._uses(request, self.weighted),
            )
        )


def _slices(variable, values, ids, row_splits):
    if row_splits is not None:
        no_weights = tf.zeros((0,), tf.float32)
        bags = (tf.identity(row_splits), no_weights, "sum")
        return PooledSlices(tf.identity(ids), values, *bags, gradient_shape(variable))
    return tf.IndexedSlices(values, tf.identity(ids), gradient_shape(variable))


def no_slices(variable, after):
    """Returns a gradient of an embedding variable that has no rows in it.

    Args:
        variable: `EmbeddingVariable`.
        after: int64 scalar, not negative, that an exchange gives for which other ranks wait. Of a
            `tf.function` whose gradient a tape outside of it takes, only what gradients are made
            from is computed, so these are. A control dependency does not do: TensorFlow replaces
            ops that nothing else needs by empty ones.
    """
    values = tf.zeros(tf.stack([tf.minimum(after, 0), variable.output_dim]))
    return tf.IndexedSlices(values, tf.zeros((0,), tf.int64), gradient_shape(variable))
