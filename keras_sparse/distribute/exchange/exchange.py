import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.exchange.exchange_call import ExchangeCall
from keras_sparse.distribute.exchange.exchange_call import Slices
from keras_sparse.distribute.exchange.prefetched_call import PrefetchedCall
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.native import library
from keras_sparse.native.on_cpu import on_cpu


class Exchange:
    """Lookups in tables of which each rank has a part.

    A lookup costs two exchanges, one of ids and one of rows, and its gradient one more, however
    many tables and inputs there are. All ranks must do the same lookups.

    Args:
        layout: `ExchangeLayout`.
        variables: List of `EmbeddingVariable`: this rank's part of each of `layout.own_tables`.
        pools: List of booleans, one a variable: whether the table has an input with a combiner.
        is_used: List of booleans, one a variable: whether the table has an input at all. One
            without has no gradient.
        is_trained: Function without arguments: whether any rank trains any of the tables.
        anchor: `EmbeddingVariable` that stands in for the tables of a rank that trains none of
            them, for gradients to arrive at there too. `None` where there are some.
        name: String, different for each exchange, the same on all ranks.
        on_gpu: Boolean. Whether rows and gradients are made and used on GPUs, for tables that all
            ranks have in GPU memory. The same on all ranks.
    """

    def __init__(self, layout, variables, pools, is_used, is_trained, anchor, name, on_gpu):
        self.layout = layout
        self.variables = variables
        self.pools = pools
        self.is_used = is_used
        self.is_trained = is_trained
        self.anchor = anchor
        self.name = name
        self.on_gpu = on_gpu
        self.area = None
        self.num_stages = 0  # that have made lookups ready for it; the same on all ranks

    # AutoGraph would rewrite what follows for every trace, and has nothing to find in it.
    @tf.autograph.experimental.do_not_convert
    @on_cpu
    def lookup(self, tables, ids, row_splits, weights, combiners, joined=False, dtype="float32"):
        """Reads rows of the tables, pooled or one by one: `keras_sparse.ops.lookup` over ranks.

        The gradients of the variables are averages over ranks: the sum of what all ranks' outputs
        give, divided by the number of ranks.

        Args:
            tables: List of integers: in which table of the plan each input is looked up.
            ids, row_splits, weights, combiners: As in `keras_sparse.ops.lookup`, one an input.
            joined, dtype: As in `keras_sparse.ops.lookup`.

        Returns:
            As `keras_sparse.ops.lookup`.

        Raises:
            tf.errors.InvalidArgumentError: On all ranks, if one of them has an id outside a static
                table. Names the rank.
        """
        weighted = [i for i, weight in enumerate(weights) if weight is not None]
        row_splits, weights, combiners = native.with_defaults(
            len(ids), row_splits, weights, combiners
        )
        mode = native.lookup_mode(self._all_variables())  # may create the tables
        make = ExchangeCall if self.area is None else PrefetchedCall
        call = make(self, tables, ids, row_splits, weights, combiners, weighted)
        if mode is native.LookupMode.COLLECT:
            native.collected_lookups().append({"exchange": self, "inputs": call.inputs()})
        if mode in (native.LookupMode.COLLECT, native.LookupMode.DRY):
            return native.zero_rows(call.output_dims, ids, row_splits, combiners, joined, dtype)
        trained = self._trained()
        anchors = [tf.convert_to_tensor(variable.value) for variable, _ in trained]
        slices = [each for _, each in trained]
        return call.rows(collective_name(self.name), anchors, slices, joined, dtype)

    @on_cpu
    def make_area(self):
        """Makes the place where lookups wait for their steps that are made ready ahead of them.

        Functions that are traced from now on look there first.

        Returns:
            Handle: eager scalar tensor of dtype resource.
        """
        if self.area is None:
            with tf.init_scope():
                self.area = library.lib.keras_sparse_create_exchange_area(
                    handles=[variable.native for variable in self.variables]
                )
        return self.area

    def _all_variables(self):
        """Returns what this rank looks up in or trains.

        None of them is unborn where there are none: while Keras only traces a model for its shapes,
        such a rank builds the exchange that others leave out. That is fine, as nothing runs then.
        """
        return self.variables if self.anchor is None else [*self.variables, self.anchor]

    def _trained(self):
        """Returns the variables that a gradient has a place for on this rank, with its `Slices`."""
        trained = [
            (variable, Slices(variable, place, self.pools[place]))
            for place, variable in enumerate(self.variables)
            if self.is_used[place] and variable.trainable
        ]
        if trained or self.anchor is None or not self.is_trained():
            return trained
        return [(self.anchor, Slices(self.anchor, None, False))]
