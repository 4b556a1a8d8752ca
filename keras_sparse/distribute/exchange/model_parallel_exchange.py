import zlib

import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.exchange.exchange_call import no_slices
from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.native import library
from keras_sparse.native.on_cpu import on_cpu

# Horovod counts in int32 where the words begin that a rank sends to each other one and gets of it.
_MOST_WORDS = 2**31 - 1

# A header of BatchHeader in ops/core/exchange/batch_headers.h, and what it calls its faults.
_HEADER_WORDS = 4
_NO_FAULT = -1
_TOO_MANY_WORDS = -2
_UNEQUAL_INPUTS = -3


class ModelParallelExchange:
    """Gives each rank the vectors of its samples, where ranks looked up the whole batch.

    Each rank has vectors of the whole batch from its tables; of a table that is cut by columns they
    are a part of the whole ones. It costs one exchange, and its gradient one more. Before the
    vectors a rank sends a header: what is wrong on one rank is an error on all.

    Args:
        plan: `Plan` of static tables that are on one rank each, or cut by columns.
        out_of_range: List of `"error"` or `"zero"`, one a table of the plan.
        wire_dtype: `"float32"`, `"float16"` or `"bfloat16"`: what vectors and gradients travel as.
        name: String, different for each exchange, the same on all ranks.
    """

    def __init__(self, plan, out_of_range, wire_dtype, name):
        self.plan = plan
        self.wire_dtype = wire_dtype
        self.name = name
        # For each rank, in the order of its vectors: the input and the slice.
        self._sent = [
            [
                (i, plan.slice_of(table, sender))
                for i, table in enumerate(plan.input_table_map)
                if plan.slice_of(table, sender) is not None
            ]
            for sender in range(plan.num_ranks)
        ]
        self._num_columns = [sum(each.num_columns for _, each in sent) for sent in self._sent]
        # Of a sample, what the rank with the most sends to all others, or one gets of all others.
        self._most_columns = max(
            max(self._num_columns) * (plan.num_ranks - 1),
            sum(self._num_columns) - min(self._num_columns),
        )
        tables = [plan.tables[table] for table in plan.input_table_map]
        self._input_dims = [table.rows for table in tables]
        self._refuses = [out_of_range[table] == "error" for table in plan.input_table_map]
        self._table_names = [table.name for table in tables]
        self._checksum = zlib.crc32(repr((name, self._table_names)).encode())
        self._bits = tf.int32 if wire_dtype == "float32" else tf.uint16
        self._header_bits = _HEADER_WORDS * 8 // self._bits.size

    @on_cpu
    def mask_invalid_ids(self, places, forms):
        """Looks for ids outside their tables, where that is an error.

        This rank's lookup would fail alone, and the others wait. So if there are any all ids become
        0, and `exchange` tells all ranks.

        Args:
            places: List of integers: the inputs of this rank.
            forms: List of `RaggedForm`, one for each of these.

        Returns:
            int64 tensor of shape `(2,)`: the first such input and one of these ids, or -1 and 0.
        """
        checked = [(i, form) for i, form in zip(places, forms, strict=True) if self._refuses[i]]
        none = tf.constant([_NO_FAULT, 0], tf.int64)
        if not checked:
            return none
        low = tf.stack([tf.reduce_min(form.ids) for _, form in checked])
        high = tf.stack([tf.reduce_max(form.ids) for _, form in checked])
        inputs = tf.constant([i for i, _ in checked], tf.int64)
        input_dims = tf.constant([self._input_dims[i] for i, _ in checked], tf.int64)
        is_outside = tf.logical_or(low < 0, high >= input_dims)
        outside = tf.stack([inputs, tf.where(low < 0, low, high)], axis=1)
        first = tf.argmax(tf.cast(is_outside, tf.int32))
        fault = tf.where(tf.reduce_any(is_outside), outside[first], none)
        for _, form in checked:
            form.ids *= tf.cast(fault[0] == _NO_FAULT, tf.int64)
        return fault

    @tf.autograph.experimental.do_not_convert
    @on_cpu
    def exchange(self, vectors, fault, placeholder):
        """Exchanges vectors.

        The gradients are averages over ranks, as those of `Exchange.lookup`.

        Args:
            vectors: List of float32 tensors of shape `(batch_size, num_columns)`, one for each of
                this rank's inputs. The batch must be the same on all ranks, and of a multiple of
                their number.
            fault: The result of `mask_invalid_ids`.
            placeholder: `EmbeddingVariable` for gradients to arrive at on a rank that trains no
                table, or `None`.

        Returns:
            List of float32 tensors of shape `(batch_size / num_ranks, output_dim)`, one an input.

        Raises:
            tf.errors.InvalidArgumentError: On all ranks, if one of them has such a fault or another
                batch. Names the rank.
        """
        if native.collected_lookups() is not None:  # nothing of it can be made ready
            num_samples = tf.shape(vectors[0])[0] // self.plan.num_ranks if vectors else 0
            tables = [self.plan.tables[table] for table in self.plan.input_table_map]
            return [tf.zeros((num_samples, table.width)) for table in tables]
        name = collective_name(self.name)
        placeholder_dims = None if placeholder is None else native.gradient_dims(placeholder)
        anchor = tf.zeros(()) if placeholder is None else tf.convert_to_tensor(placeholder.value)
        header, num_samples = self._header(vectors, fault)

        @tf.custom_gradient
        def exchanged(anchor, *vectors):
            blocks = self._blocks(vectors, num_samples)
            received, num_own = self._alltoall(blocks, header, f"{name}.samples")
            shaped = zip(received, self._num_columns, strict=True)

            @on_cpu
            def gradient(*grads):
                parts, checked = self._alltoall(grads, header, f"{name}.gradients")
                # A rank that trains nothing does not read the parts.
                collectives.keep_alive([checked])
                to_anchor = (
                    None if placeholder_dims is None else no_slices(placeholder_dims, checked)
                )
                return to_anchor, *self._vector_grads(parts)

            return [tf.reshape(each, tf.stack([num_own, n])) for each, n in shaped], gradient

        return self._put_together(exchanged(anchor, *vectors))

    def _header(self, vectors, fault):
        """Returns what this rank tells the others, and how many of its samples it may send."""
        num_ranks = self.plan.num_ranks
        if not vectors:
            header = tf.constant([self._checksum, -1, _NO_FAULT, 0], tf.int64)
            return header, tf.constant(0, tf.int64)
        sizes = tf.stack([tf.shape(each, tf.int64)[0] for each in vectors])
        least, most = tf.reduce_min(sizes), tf.reduce_max(sizes)
        num_words = least // num_ranks * self._most_columns + num_ranks * self._header_bits
        fault = tf.where(num_words > _MOST_WORDS, tf.stack([_TOO_MANY_WORDS, num_words]), fault)
        fault = tf.where(least != most, tf.stack([_UNEQUAL_INPUTS, most]), fault)
        num_samples = tf.where(num_words > _MOST_WORDS, tf.zeros_like(least), least)
        header = tf.concat([tf.stack([self._checksum, least]), fault], axis=0)
        return header, num_samples // num_ranks * num_ranks

    def _blocks(self, vectors, num_samples):
        """The vectors that go to each rank."""
        if not vectors:
            return [tf.zeros((0,))] * self.plan.num_ranks
        whole = tf.concat([each[:num_samples] for each in vectors], axis=1)
        return tf.split(tf.reshape(whole, (-1,)), self.plan.num_ranks)

    def _alltoall(self, blocks, header, name):
        """Sends a block of floats to each rank.

        Returns:
            Those that came, and how many samples a rank has, once the headers of all ranks are
            checked.
        """
        header = tf.reshape(tf.bitcast(header, self._bits), (-1,))
        blocks = [self._encoded(tf.reshape(each, (-1,))) for each in blocks]
        sizes = tf.stack([tf.size(each, tf.int64) for each in blocks]) + self._header_bits
        words = tf.concat([piece for each in blocks for piece in (header, each)], axis=0)
        words, splits = collectives.alltoall(words, tf.cast(sizes, tf.int32), name)
        of_headers = tf.fill(tf.shape(splits), self._header_bits)
        pieces = tf.reshape(tf.stack([of_headers, splits - of_headers], axis=1), (-1,))
        pieces = tf.split(words, pieces, num=2 * self.plan.num_ranks)
        headers = [tf.reshape(each, (_HEADER_WORDS, -1)) for each in pieces[::2]]
        num_own = library.lib.keras_sparse_check_whole_batches(
            headers=tf.bitcast(tf.stack(headers), tf.int64),
            rank=rank(),
            table_names=self._table_names,
            input_dims=self._input_dims,
        )
        return [self._decoded(each) for each in pieces[1::2]], num_own

    def _encoded(self, floats):
        return tf.bitcast(tf.cast(floats, self.wire_dtype), self._bits)

    def _decoded(self, bits):
        return tf.cast(tf.bitcast(bits, self.wire_dtype), tf.float32)

    def _vector_grads(self, parts):
        """The gradients of this rank's vectors, of which each rank sent those of its samples."""
        num_columns = [each.num_columns for _, each in self._sent[rank()]]
        if not num_columns:
            return []
        whole = tf.reshape(tf.concat(parts, axis=0), (-1, sum(num_columns)))
        return tf.split(whole / self.plan.num_ranks, num_columns, axis=1)

    def _put_together(self, blocks):
        parts: list[list] = [[] for _ in self.plan.input_table_map]
        for sent, block in zip(self._sent, blocks, strict=True):
            if not sent:
                continue
            columns = tf.split(block, [each.num_columns for _, each in sent], axis=1)
            for (i, each), part in zip(sent, columns, strict=True):
                parts[i].append((each.first_column, part))
        in_order = [sorted(each, key=lambda part: part[0]) for each in parts]
        return [tf.concat([part for _, part in each], axis=1) for each in in_order]
