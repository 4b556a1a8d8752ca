import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.exchange.exchange_call import ExchangeCall
from keras_sparse.distribute.exchange.exchange_call import Slices
from keras_sparse.distribute.exchange.exchange_layout import ExchangeLayout
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.collectives import alltoall
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.native import library
from keras_sparse.native.on_cpu import on_cpu


class ModelParallelExchange:
    """An exchange of rows that nobody has to ask for: ranks look up the whole batch.

    Each rank has rows of all samples from its tables, of a table that is cut by columns a part of
    the whole ones. It replies to every rank with those of that rank's samples, which costs one
    exchange, and the gradient one more.

    Args:
        plan: `Plan` of static tables that are on one rank each, or cut by columns.
        out_of_range: List of `"error"` or `"zero"`, one a table of the plan.
        row_dtypes: List of strings, one a table of the plan: as for `ExchangeLayout`, and
            `"float32"` for a table with a combiner.
        wire_dtype: As for `ExchangeLayout`.
        name: String, different for each exchange, the same on all ranks.
    """

    # What a call asks an `Exchange` for besides: nothing is looked up for other ranks.
    variables, pools, area, on_gpu = (), (), None, False

    def __init__(self, plan, out_of_range, row_dtypes, wire_dtype, name):
        entries = [1] * len(plan.tables)
        # Of the tables of all inputs: a sample is a row of each of them.
        inputs = plan.input_table_map
        self.layout = ExchangeLayout(
            plan, rank(), inputs, out_of_range, entries, row_dtypes, wire_dtype, name
        )
        self.name = name
        self._input_dims = [
            plan.tables[table].rows if out_of_range[table] == "error" else None for table in inputs
        ]

    @on_cpu
    def ids_in_range(self, place, ids):
        """Returns ids of an input that its table takes, where others are an error.

        This rank's lookup would fail alone, and the others wait. `exchange` refuses the others.
        """
        most = self._input_dims[place]
        return ids if most is None else tf.clip_by_value(ids, 0, most - 1)

    @tf.autograph.experimental.do_not_convert
    @on_cpu
    def exchange(self, ids, rows, are_stored, placeholder):
        """Gives each rank the rows of its samples.

        The gradients are averages over ranks, as those of `Exchange.lookup`.

        Args:
            ids: List of int64 tensors, one for each of this rank's inputs, as they were given.
            rows: List of float32 tensors of shape `(batch_size, num_columns)`, one for each of
                these. The batch must be the same on all ranks, and of a multiple of their number.
            are_stored: Boolean. Whether `rows` of tables without a combiner have the values that
                the tables store. `False` if they were multiplied by weights.
            placeholder: `EmbeddingVariable` for gradients to arrive at on a rank that trains no
                table, or `None`.

        Returns:
            List of float32 tensors of shape `(batch_size / num_ranks, output_dim)`, one an input.

        Raises:
            tf.errors.InvalidArgumentError: On all ranks, if one of them has an id outside of a
                table or another batch. Names the rank.
        """
        if native.collected_lookups() is not None:  # nothing of it can be made ready
            num_samples = tf.shape(rows[0])[0] // self.layout.num_ranks if rows else 0
            return [tf.zeros((num_samples, dim)) for dim in self.layout.output_dims]
        anchors = list(rows)
        grads: list = [_SampleGradients(place, self.layout.num_ranks) for place in range(len(rows))]
        if placeholder is not None:
            anchors.append(tf.convert_to_tensor(placeholder.value))
            grads.append(Slices(placeholder, None, False))
        call = _SamplesCall(self, ids, rows, are_stored)
        return call.rows(collective_name(self.name), anchors, grads)


class _SamplesCall(ExchangeCall):
    """A lookup over ranks whose rows are at hand, and of which no rank sends ids."""

    def __init__(self, exchange, ids, rows, are_stored):
        num_inputs = len(exchange.layout.tables)
        splits, weights, combiners = native.with_defaults(num_inputs, None, None, None)
        super().__init__(exchange, (), ids, splits, weights, combiners, ())
        self.input_tables = list(range(num_inputs))
        self.gradient_scale = 1.0  # `_SampleGradients` divides what has come
        self._rows = rows
        self._are_stored = are_stored

    def _exchange(self, name, joined):
        served = library.lib.keras_sparse_serve_samples(
            ids=self.ids,
            rows=self._rows,
            has_stored_rows=self._are_stored,
            **self.layout.attributes,
        )
        words, splits = alltoall(served.reply, served.reply_splits, f"{name}.samples")
        request = library.lib.keras_sparse_check_whole_batches(
            words=words,
            splits=splits,
            own_words=served.own_reply,
            N=len(self.input_tables),
            **self.layout.attributes,
        )
        return request, served, words, splits


class _SampleGradients:
    """What `Slices` is for a variable, for the rows that an input has of the whole batch."""

    def __init__(self, place, num_ranks):
        self._place = place
        self._num_ranks = num_ranks

    def make(self, values, *_):
        return values[self._place] / self._num_ranks
