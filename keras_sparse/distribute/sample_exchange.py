import tensorflow as tf

from keras_sparse.distribute.call_name import call_name
from keras_sparse.distribute.collectives import alltoall
from keras_sparse.distribute.exchange import no_slices


class SampleExchange:
    """Gives each rank the vectors of its samples, where ranks looked up the whole batch.

    Each rank has vectors of the whole batch from its tables; of a table that is cut by columns they
    are a part of the whole ones. It costs one exchange, and its gradient one more.

    Args:
        plan: `Plan` of tables that are on one rank each, or cut by columns.
        get_stand_in: Function that returns an `EmbeddingVariable` for gradients to arrive at on a
            rank that trains no table, or `None`.
        wire_dtype: `"float32"`, `"float16"` or `"bfloat16"`: what vectors and gradients travel as.
        name: String, another one for each exchange, the same on all ranks.
    """

    def __init__(self, plan, get_stand_in, wire_dtype, name):
        self.plan = plan
        self.get_stand_in = get_stand_in
        self.wire_dtype = wire_dtype
        self.name = name
        # For each rank, in the order of its vectors: the input and the slice.
        self._sent = [
            [
                (i, plan.slice_of(table, rank))
                for i, table in enumerate(plan.input_table_map)
                if plan.slice_of(table, rank) is not None
            ]
            for rank in range(plan.num_ranks)
        ]
        self._num_columns = [sum(each.num_columns for _, each in sent) for sent in self._sent]

    @tf.autograph.experimental.do_not_convert
    def exchange(self, vectors):
        """Exchanges vectors.

        The gradients are averages over ranks, as those of `Exchange.lookup`.

        Args:
            vectors: List of float32 tensors of shape `(batch_size, num_columns)`, one for each of
                this rank's inputs. The batch must be the same on all ranks, and of a multiple of
                their number.

        Returns:
            List of float32 tensors of shape `(batch_size / num_ranks, output_dim)`, one an input.
        """
        num_ranks, name = self.plan.num_ranks, call_name(self.name)
        stand_in = self.get_stand_in()
        anchor = tf.zeros(()) if stand_in is None else tf.convert_to_tensor(stand_in.value)

        @tf.custom_gradient
        def exchanged(flat, anchor):
            evenly = tf.fill((num_ranks,), tf.size(flat) // num_ranks)
            received = self._alltoall(flat, evenly, f"{name}.samples")

            def gradient(grad):
                sizes = self._num_samples(grad) * tf.constant(self._num_columns)
                grad = self._alltoall(grad, sizes, f"{name}.gradients")
                return grad / num_ranks, None if stand_in is None else no_slices(stand_in)

            return received, gradient

        whole = self._whole(tf.concat(vectors, axis=1)) if vectors else tf.zeros((0,))
        return self._put_together(exchanged(tf.reshape(whole, (-1,)), anchor))

    def _alltoall(self, flat, splits, name):
        if self.wire_dtype == "float32":
            return alltoall(flat, splits, name)[0]
        bits = tf.bitcast(tf.cast(flat, self.wire_dtype), tf.uint16)
        received, _ = alltoall(bits, splits, name)
        return tf.cast(tf.bitcast(received, self.wire_dtype), tf.float32)

    def _whole(self, vectors):
        message = (
            f"The batch of dp_input=False is not divisible by {self.plan.num_ranks}, the number of "
            "ranks. Drop what is left over, or pad it."
        )
        num_samples = tf.shape(vectors)[0]
        tf.debugging.assert_equal(num_samples % self.plan.num_ranks, 0, message)
        return vectors

    def _num_samples(self, flat):
        """How many samples there are vectors of, of all ranks' tables."""
        return tf.size(flat) // sum(self._num_columns)

    def _put_together(self, received):
        num_samples = self._num_samples(received)
        blocks = tf.split(received, num_samples * tf.constant(self._num_columns))
        parts: list[list] = [[] for _ in self.plan.input_table_map]
        for sent, block, num_columns in zip(self._sent, blocks, self._num_columns, strict=True):
            if not sent:
                continue
            block = tf.reshape(block, (num_samples, num_columns))
            columns = tf.split(block, [each.num_columns for _, each in sent], axis=1)
            for (i, each), part in zip(sent, columns, strict=True):
                parts[i].append((each.first_column, part))
        in_order = [sorted(each, key=lambda part: part[0]) for each in parts]
        return [tf.concat([part for _, part in each], axis=1) for each in in_order]
