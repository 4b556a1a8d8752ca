import contextlib

import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import alltoall
from keras_sparse.native import library
from keras_sparse.native.on_cpu import on_cpu


class ExchangeCall:
    """One lookup over ranks: its tensors, and its ops forward and back.

    It has no variables: TensorFlow keeps what a custom gradient refers to until the process ends,
    and a table goes with its variable.

    Args:
        exchange: `Exchange`.
        tables, ids, row_splits, weights, combiners: As in `Exchange.lookup`; lists without gaps.
        weighted: List of the places of the inputs that were given weights.
    """

    def __init__(self, exchange, tables, ids, row_splits, weights, combiners, weighted):
        self.layout = exchange.layout
        self.area = exchange.area
        self.handles = [variable.native for variable in exchange.variables]
        self.pools = exchange.pools
        self.on_gpu = exchange.on_gpu
        self.gradient_scale = 1 / exchange.layout.num_ranks  # before gradients are sent
        self.input_tables = exchange.layout.numbers_of(tables)
        self.ids = ids
        self.row_splits = row_splits
        self.weights = weights
        self.combiners = combiners
        self.weighted = weighted

    @property
    def output_dims(self):
        """The widths of the tables of the inputs."""
        return [self.layout.output_dims[table] for table in self.input_tables]

    def rows(self, name, anchors, slices, joined=False, dtype="float32"):
        """Returns the outputs of the lookup.

        Args:
            name: String. What the names of its exchanges begin with.
            anchors: List of tensors that gradients of tables arrive at.
            slices: List of `Slices`, one for each of these.
            joined: Boolean. Whether to give one output with those of all inputs side by side.
            dtype: String, one of `ROW_DTYPES`.
        """
        output_dims = self.output_dims
        columns = [first for first, _ in native.joined_columns(output_dims)] if joined else []

        @tf.custom_gradient
        def rows_of(*anchors_and_weights):
            request, served, words, splits = self._exchange(name, joined)
            reply = {"words": words, "splits": splits, "own_words": served.own_reply}
            with self._place():
                rows = library.lib.keras_sparse_combine_rows(
                    **reply,
                    reply_rows=request.reply_rows,
                    output_dims=output_dims,
                    num_outputs=1 if joined else len(output_dims),
                    out_type=tf.as_dtype(dtype),  # a string takes TensorFlow longer
                    **self._uses(request),
                )

            @on_cpu
            def gradient(*row_grads):
                grads = [tf.convert_to_tensor(grad) for grad in row_grads]
                grads = grads * len(output_dims) if joined else grads
                table_grads = self._table_grads(slices, grads, columns, request, served, name)
                return table_grads + self._weight_grads(grads, columns, request, reply)

            return list(rows), gradient

        rows = rows_of(*anchors, *(self.weights[i] for i in self.weighted))
        return rows[0] if joined else rows

    def _exchange(self, name, joined):
        """Returns the request, what was served to other ranks, and the words and splits of the rows
        that came.
        """
        request = library.lib.keras_sparse_request_rows(
            **self.inputs(), are_joined=joined, **self.layout.attributes
        )
        words, splits = alltoall(request.words, request.splits, f"{name}.ids")
        served = self._serve(words, splits, request.own_words, self.on_gpu)
        words, splits = alltoall(served.reply, served.reply_splits, f"{name}.rows", self.on_gpu)
        return request, served, words, splits

    def _place(self):
        """Returns the scope of ops of rows and gradients: the device of tables in GPU memory."""
        return tf.device(native.table_device(True)) if self.on_gpu else contextlib.nullcontext()

    def inputs(self):
        """Returns what the native ops take of the inputs of the lookup, as a dict."""
        return {
            "ids": self.ids,
            "row_splits": self.row_splits,
            "weights": self.weights,
            "combiners": self.combiners,
            "input_tables": self.input_tables,
        }

    def _serve(self, words, splits, own_words, on_gpu):
        with self._place() if on_gpu else contextlib.nullcontext():
            return library.lib.keras_sparse_serve_rows(
                handles=self.handles,
                words=words,
                splits=splits,
                own_words=own_words,
                pools=self.pools,
                W=_word_type(on_gpu),
                **self.layout.attributes,
            )

    def _uses(self, request, places=None):
        """Returns what the native ops take of the inputs at these places; all by default."""
        places = range(len(self.input_tables)) if places is None else places
        return {
            "positions": [request.positions[i] for i in places],
            "position_splits": [request.position_splits[i] for i in places],
            "scales": [request.scales[i] for i in places],
            "weights": [self.weights[i] for i in places],
            "combiners": [self.combiners[i] for i in places],
            "input_tables": [self.input_tables[i] for i in places],
            **self.layout.attributes,
        }

    def _table_grads(self, slices, grads, columns, request, served, name):
        if not slices:
            return []
        with self._place():
            returned = library.lib.keras_sparse_return_gradients(
                output_grads=grads,
                columns=columns,
                reply_rows=request.reply_rows,
                scale=self.gradient_scale,
                W=_word_type(self.on_gpu),
                **self._uses(request),
            )
        sent = returned.words, returned.splits
        words, splits = alltoall(*sent, f"{name}.gradients", self.on_gpu)
        with self._place():
            values = library.lib.keras_sparse_gather_gradients(
                words=words,
                splits=splits,
                own_words=returned.own_words,
                served_rows=served.served_rows,
                output_dims=self.layout.own_dims,
                P=len(self.layout.own_dims),
                **self.layout.attributes,
            )
            after = tf.size(words, tf.int64)
        device = native.table_device(self.on_gpu)
        return [each.make(values, served, after, device) for each in slices]

    def _weight_grads(self, grads, columns, request, reply):
        if not self.weighted:
            return []
        with self._place():
            return list(
                library.lib.keras_sparse_combine_rows_weights_grad(
                    output_grads=[grads[i] for i in self.weighted],
                    columns=[columns[i] for i in self.weighted] if columns else [],
                    **reply,
                    reply_rows=request.reply_rows,
                    **self._uses(request, self.weighted),
                )
            )


def _word_type(on_gpu):
    """Returns the dtype that ops give words: see BlockTensors (ops/tf/exchange)."""
    return tf.float32 if on_gpu else tf.int32


class Slices:
    """The parts of a variable's gradient, without the variable.

    Args:
        variable: `EmbeddingVariable`.
        place: Integer, among this rank's parts of tables. `None` for a variable that stands in for
            tables of other ranks.
        pools: Boolean. Whether the table has an input with a combiner.
    """

    def __init__(self, variable, place, pools):
        self._dims = native.gradient_dims(variable)
        self._max_entries = native.max_entries(variable)
        self._place = place
        self._pools = pools

    def make(self, values, served, after, device):
        """Returns the gradient.

        Args:
            values: List of tensors: the gradients of what was served, one a part.
            served: What `ExchangeCall` served of each part.
            after: As for `no_slices`.
            device: String. Where the gradients are.
        """
        if self._place is None:
            return no_slices(self._dims, after)
        values, ids = values[self._place], tf.identity(served.ids[self._place])
        if not self._pools:
            return tf.IndexedSlices(values, ids, native.shape_tensor(*self._dims))
        bags = (tf.identity(served.row_splits[self._place]), tf.zeros((0,), tf.float32), "sum")
        shape = native.shape_tensor(*self._dims)
        return native.PooledSlices(ids, values, *bags, shape, None, device, self._max_entries)


def no_slices(dims, after):
    """Returns a gradient of an embedding variable that has no rows in it.

    Args:
        dims: `gradient_dims` of the variable.
        after: int64 scalar, not negative, that an exchange gives for which other ranks wait. Of a
            `tf.function` whose gradient a tape outside of it takes, only what gradients are made
            from is computed, so these are. A control dependency does not do: TensorFlow replaces
            ops that nothing else needs by empty ones.
    """
    values = tf.zeros(tf.stack([tf.minimum(after, 0), dims[1]]))
    return tf.IndexedSlices(values, tf.zeros((0,), tf.int64), native.shape_tensor(*dims))
