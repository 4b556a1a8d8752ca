import tensorflow as tf

from keras_sparse.distribute.call_name import call_name
from keras_sparse.distribute.collectives import alltoall
from keras_sparse.ops import _native
from keras_sparse.ops.lookup import gradient_shape
from keras_sparse.ops.lookup import zero_rows
from keras_sparse.ops.merge_gradients import fill_in_absent
from keras_sparse.ops.pooled_slices import PooledSlices
from keras_sparse.ops.stage_lookups import collected_lookups


class Exchange:
    """Lookups in tables of which each rank has a part.

    A lookup costs two exchanges, one of ids and one of rows, and its gradient one more, however
    many tables and inputs there are. All ranks must do the same lookups.

    Args:
        layout: `ExchangeLayout`.
        variables: List of `EmbeddingVariable`: this rank's part of each of `layout.own_tables`.
        pools: List of booleans, one a variable: whether the table has an input with a combiner.
        is_trained: Function without arguments: whether any rank trains any of the tables.
        anchor: `EmbeddingVariable` that stands in for the tables of a rank that trains none of
            them, for gradients to arrive at there too. `None` where there are some.
        name: String, another one for each exchange, the same on all ranks.
    """

    def __init__(self, layout, variables, pools, is_trained, anchor, name):
        self.layout = layout
        self.variables = variables
        self.pools = pools
        self.is_trained = is_trained
        self.anchor = anchor
        self.name = name

    # AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
    @tf.autograph.experimental.do_not_convert
    def lookup(self, tables, ids, row_splits, weights, combiners):
        """Reads rows of the tables, pooled or one by one: `keras_sparse.ops.lookup` over ranks.

        The gradients of the variables are averages over ranks: the sum of what all ranks' outputs
        give, divided by the number of ranks.

        Args:
            tables: List of integers: in which table of the plan each input is looked up.
            ids, row_splits, weights, combiners: As in `keras_sparse.ops.lookup`, one an input.

        Returns:
            List of float32 tensors, as `keras_sparse.ops.lookup` does.

        Raises:
            tf.errors.InvalidArgumentError: On all ranks, if one of them has an id outside a static
                table. Names the rank.
        """
        if collected_lookups() is not None:
            raise NotImplementedError(
                "`prefetch_lookups` must be used on one rank: it does not exchange ids ahead yet. "
                f"Leave it out. Received: a layer on {self.layout.num_ranks} ranks"
            )
        weighted = [i for i, weight in enumerate(weights) if weight is not None]
        row_splits, weights, combiners = fill_in_absent(len(ids), row_splits, weights, combiners)
        if any(variable.native is None for variable in self._all_variables()):
            dims = self.layout.dims_of(tables)
            return zero_rows(dims, ids, row_splits, combiners)
        call = _Call(self, tables, ids, row_splits, weights, combiners, weighted)
        return call.rows(call_name(self.name))

    def _all_variables(self):
        """What this rank looks up in or trains.

        None of them is unborn where there are none: while Keras only traces a model for its shapes,
        such a rank builds the exchange that others leave out. That is fine, as nothing runs then.
        """
        return self.variables if self.anchor is None else [*self.variables, self.anchor]

    def trained_variables(self):
        """Returns what a gradient has a place for on this rank."""
        trained = [variable for variable in self.variables if variable.trainable]
        if trained or self.anchor is None or not self.is_trained():
            return trained
        return [self.anchor]


class _Call:
    """One lookup's tensors, and its ops forward and back."""

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
        trained = self.exchange.trained_variables()

        @tf.custom_gradient
        def rows_of(*anchors_and_weights):
            request = self._request()
            words, splits = alltoall(request.words, request.splits, f"{name}.ids")
            served = _native.lib.keras_sparse_serve_rows(
                handles=[variable.native for variable in self.exchange.variables],
                words=words,
                splits=splits,
                own_words=request.own_words,
                pools=self.exchange.pools,
                **self.layout.attributes,
            )
            words, splits = alltoall(served.reply, served.reply_splits, f"{name}.rows")
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

    def _request(self):
        return _native.lib.keras_sparse_request_rows(
            ids=self.ids,
            row_splits=self.row_splits,
            weights=self.weights,
            combiners=self.combiners,
            input_tables=self.layout.numbers_of(self.tables),
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
        own = zip(self.exchange.variables, self.exchange.pools, strict=True)
        return [
            _slices(variable, values[p], served.ids[p], served.row_splits[p] if pools else None)
            for p, (variable, pools) in enumerate(own)
            if variable.trainable
        ]

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
