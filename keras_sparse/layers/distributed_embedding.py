from typing import Any

import keras

from keras_sparse.distribute.exchange.exchange_layout import WIRE_DTYPES
from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import plan_placement
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.tables.distributed_table import ReplicatedTable
from keras_sparse.distribute.tables.make_layer_tables import make_layer_tables
from keras_sparse.distribute.tables.regularized_parts import check_regularizers
from keras_sparse.distribute.tables.whole_tables import get_whole_tables
from keras_sparse.distribute.tables.whole_tables import set_whole_tables
from keras_sparse.inputs.ragged_inputs import as_tensor
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.ragged_inputs import RaggedForm
from keras_sparse.layers.data_parallel_inputs import DataParallelInputs
from keras_sparse.layers.layer_introspection import not_built_message
from keras_sparse.layers.model_parallel_inputs import check_whole_batch_options
from keras_sparse.layers.model_parallel_inputs import ModelParallelInputs
from keras_sparse.layers.table_configs import ids_of_shapes
from keras_sparse.layers.table_configs import OutputForm
from keras_sparse.layers.table_configs import TableConfigs
from keras_sparse.layers.table_layer import TableLayer
from keras_sparse.ops.embedding_lookup import flat_int64
from keras_sparse.ops.embedding_lookup import ids_tensor
from keras_sparse.saved_model.reject_tf_checkpoint import RejectTfCheckpoint
from keras_sparse.saving.keras_files.table_holder import TableHolder
from keras_sparse.tables.local_table import LocalTable
from keras_sparse.tables.padded_table import PaddedTable
from keras_sparse.utils import checks

# Arguments that place tables.
PLACES = ("strategy", "column_slice_threshold", "row_slice_threshold", "data_parallel_threshold")


@keras.saving.register_keras_serializable(package="keras_sparse")
class DistributedEmbedding(RejectTfCheckpoint, TableLayer):
    """Looks up several embedding tables that are sharded over ranks.

    Each rank passes its own part of a batch and receives the rows of its ids, wherever the rows are
    stored. `strategy` and the thresholds place each table on one rank, shard it by columns or rows,
    or replicate it. A step needs two exchanges for the forward pass and one for the backward pass,
    for any number of tables. On one rank, the layer looks up all tables in one native op and needs
    no Horovod.

    Train it with `keras_sparse.distribute.DistributedOptimizer`.

    Args:
        embeddings: List of unbuilt embedding layers, dict of such layers by name, or one layer:
            `keras.layers.Embedding`, `keras_sparse.layers.Embedding` with all its options, or a
            subclass that computes nothing else. All ranks must pass the same layers. Rank `r` of
            `n` uses the folder `rank-r-of-n` inside a `storage_path`.
        strategy: `"basic"`, `"memory_balanced"`, `"memory_optimized"` or `"auto"`. The rule that
            places the tables, as `keras_sparse.distribute.plan_placement` documents it. Defaults to
            `"basic"`.
        column_slice_threshold: Integer, in elements (`rows * width`). A larger table is cut by
            columns into the fewest slices that do not exceed it, but at most one per rank and per
            column. Slice widths differ by at most one column, and slices of a table on the same
            rank are merged. Defaults to `None`: if fewer tables than ranks remain, the largest
            slices are cut until every rank has one or nothing can be cut; `"auto"` chooses the
            cuts.
        row_slice_threshold: Integer, in elements (`rows * width`). A table with at least as many
            elements is sharded by rows over all ranks. Defaults to `None`: only `"auto"` shards
            static tables by rows.
        data_parallel_threshold: Integer, in elements (`rows * width`). A table with at most as many
            elements is replicated on all ranks. Defaults to `None`: only `"auto"` replicates
            tables.
        dp_input: Boolean. Whether each rank passes its own samples of every input. If `False`, a
            rank passes all samples of the inputs in `own_inputs`, whose tables have columns on this
            rank, and no ids are exchanged. The rank still receives the vectors of its own samples:
            for a batch of `B` samples, rank `r` of `n` receives those from `r * B / n` on. Each
            input must then give one vector per sample, and tables sharded by rows or replicated
            raise `ValueError`. Defaults to `True`.
        input_table_map: List with the index of the table of each input; use it when inputs share a
            table. For a dict of layers, a dict from input names to table names. Defaults to `None`:
            one input per table.
        memory_budget: Integer, or string such as `"16GB"` or `"16GiB"`. Largest number of bytes of
            rows and slots on one rank. Defaults to `None`: no limit.
        wire_dtype: `"float32"`, `"float16"` or `"bfloat16"`. Dtype in which ranks exchange rows and
            gradients. The 16-bit dtypes halve the bytes and round the values. `"float16"` overflows
            above 65504, so use it with a `keras.optimizers.LossScaleOptimizer`. Rows of a table
            with a 16-bit `row_dtype` travel as they are stored, whatever the `wire_dtype`. Defaults
            to `"float32"`.
        num_slots: Integer. Number of optimizer slots that are as wide as a row, for `memory_budget`
            and `"auto"`: 1 for `Adagrad`, 2 for `Adam`. Defaults to 0.
        hotness: List of floats, or dict of floats by input name. Mean number of ids per sample of
            each input, for `"auto"`. Defaults to `None`: 1 for each input.
        cost_model: `keras_sparse.distribute.CostModel`. Speeds of memory and network, and the batch
            size of a rank, for `strategy="auto"`. Defaults to `None`: `CostModel()`.
        output_mode: `"list"`, `"concat"` or `"stack"`. `"list"` returns one output per input,
            `"concat"` joins all outputs along the last axis, and `"stack"` joins outputs of one
            width along a new axis of inputs. Defaults to `"list"`.
        **kwargs: `name` and `trainable` of `keras.layers.Layer`. Outputs have the compute dtype of
            the layers in `embeddings`.

    Call arguments:
        inputs: List with the ids of each input, dict of ids if `embeddings` is a dict, or ids alone
            if it is one layer. Each entry is of a form that `keras_sparse.layers.Embedding` takes:
            dense, ragged or sparse, in any mixture. The batch size may differ by rank and may be 0.
            Also takes a matrix of ids of shape `(batch_size, num_inputs)`, with one id per sample
            and input.
        weights: Weights of the ids, in the structure of `inputs`. `None` in a list, or a missing
            entry in a dict, stands for weights of 1. Defaults to `None`: 1 for each id.

    Output shape: In the structure of `inputs`, the shapes that `keras_sparse.layers.Embedding`
        returns for each input. With `output_mode="concat"` one tensor of shape
        `(batch_size, ..., sum of widths)`; with `"stack"` one of shape
        `(batch_size, ..., num_inputs, width)`. Inputs are joined in their order; those of a dict,
        in the order of names that the layer was created with.

    Example:
    >>> layer = DistributedEmbedding(
    ...     [keras.layers.Embedding(1000, 16), keras_sparse.layers.Embedding(None, 8, "mean")]
    ... )
    >>> users, items = layer([tf.constant([3, 7]), tf.ragged.constant([[2**40, 5], []])])
    >>> users.shape, items.shape
    (TensorShape([2, 16]), TensorShape([2, 8]))
    """

    def __init__(
        self,
        embeddings,
        strategy="basic",
        column_slice_threshold=None,
        row_slice_threshold=None,
        data_parallel_threshold=None,
        dp_input=True,
        input_table_map=None,
        memory_budget=None,
        wire_dtype="float32",
        num_slots=0,
        hotness=None,
        cost_model=None,
        output_mode="list",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.templates = TableConfigs(embeddings, input_table_map, self.name)
        self.output_mode = self.templates.check_output_mode(output_mode)
        self.strategy = strategy
        self.column_slice_threshold = column_slice_threshold
        self.row_slice_threshold = row_slice_threshold
        self.data_parallel_threshold = data_parallel_threshold
        self.dp_input = checks.boolean(dp_input, "dp_input")
        self.memory_budget = memory_budget
        self.wire_dtype = checks.dtype(wire_dtype, WIRE_DTYPES, "wire_dtype")
        self.num_slots = checks.not_negative(num_slots, "num_slots")
        self.hotness = hotness
        self.cost_model = (
            CostModel.from_config(cost_model) if isinstance(cost_model, dict) else cost_model
        )
        self.supports_jit = False  # the native ops have no XLA kernel
        self.autocast = False  # ids are not cast
        self.supports_masking = any(each.supports_masking for each in self.templates.layers)
        self.own_tables: Any = None
        # For Keras to save the tables, each in a place of its own.
        self.table_holders = [TableHolder(self.name, name) for name in self.templates.names]
        if not self.dp_input:
            check_whole_batch_options(self)
        self.plan = self._make_plan()
        check_regularizers(self.plan, self.templates.layers)
        self._samples = (
            DataParallelInputs(self.templates)
            if self.dp_input
            else ModelParallelInputs(self.templates, self.plan, rank())
        )

    def _make_plan(self):
        return plan_placement(
            self.templates.specs(self.num_slots, self.hotness),
            size(),
            self.strategy,
            self.column_slice_threshold,
            self.row_slice_threshold,
            self.data_parallel_threshold,
            self.templates.input_tables,
            self.memory_budget,
            self.cost_model,
        )

    @property
    def own_inputs(self):
        """List of indices of the inputs that this rank passes; all if `dp_input=True`."""
        return self._samples.inputs

    @property
    def tables(self):
        """List of this rank's `EmbeddingVariable`s. Raises `AttributeError` until built."""
        if self.own_tables is None:
            raise AttributeError(not_built_message(self, "`tables` must be read of"))
        return self._own_variables

    def __call__(self, inputs, weights=None, **kwargs):
        if not self.templates.is_matrix(inputs):
            inputs = [ids_as_tensor(each) for each in self._in_order(inputs)]
            inputs = self.templates.as_given(inputs, self.own_inputs)
        if weights is not None:
            if not self.templates.is_matrix(weights):
                weights = self.templates.in_order(weights, "weights", self.own_inputs, True)
                weights = [None if each is None else as_tensor(each) for each in weights]
                # As they were given: Keras calls a layer of a functional model with the same again.
                weights = self.templates.as_given(weights, self.own_inputs)
            kwargs["weights"] = weights
        return super().__call__(inputs, **kwargs)

    def build(self, input_shape=None):
        if self.own_tables is not None:
            return
        self.own_tables = make_layer_tables(
            self.plan, self.templates.layers, self.dp_input, self.wire_dtype
        )
        self._own_variables = self.own_tables.variables()  # for Keras to find them
        for variable in self._own_variables:
            variable.trainable = variable.trainable and self.trainable
        for holder, table in zip(self.table_holders, self.own_tables.saved_tables(), strict=True):
            holder.hold(table)

    def call(self, inputs, weights=None):
        inputs = self._in_order(inputs)
        if weights is None:
            weights = [None] * len(inputs)
        else:
            weights = self.templates.given(weights, "weights", self.own_inputs)
        outputs = self._samples.lookup(self.own_tables, inputs, weights, self.output_mode)
        return self._form().of(outputs)

    def compute_mask(self, inputs, previous_mask=None):
        return self._form().mask(self._samples.masks(self._in_order(inputs)))

    def compute_output_spec(self, inputs, weights=None):
        return self._form().spec(self._samples.output_specs(self._in_order(inputs)))

    def compute_output_shape(self, input_shape):
        specs = self.compute_output_spec(ids_of_shapes(input_shape))
        return keras.tree.map_structure(lambda spec: spec.shape, specs)

    def _form(self):
        return OutputForm(self.templates, self.output_mode)

    def _in_order(self, inputs):
        inputs = self.templates.given(inputs, "inputs", self.own_inputs)
        self._samples.check(inputs)
        return inputs

    def stats(self, frequencies=False):
        """Returns statistics of the tables and parts of tables on this rank.

        Args:
            frequencies: Boolean. Whether to read all rows and also count them by frequency.
                Defaults to `False`.

        Returns:
            Dict from the names of this rank's tables to the dicts that `EmbeddingVariable.stats`
            documents.

        Raises:
            ValueError: The layer is not built.
        """
        return {name: table.stats(frequencies) for name, table in self._own_parts("stats").items()}

    def evict(self, with_rows=False):
        """Evicts the rows of this rank that the eviction policies of the tables select.

        Args:
            with_rows: Boolean. Whether to return the evicted rows instead of their number. Defaults
                to `False`.

        Returns:
            Dict from the names of tables with an eviction policy to the result of
            `EmbeddingVariable.evict`.

        Raises:
            ValueError: The layer is not built.
        """
        parts = self._own_parts("evict").items()
        return {n: table.evict(with_rows) for n, table in parts if table.eviction is not None}

    def lookup_rows(self, ids, table=None):
        self._built_tables("lookup_rows")
        number = self._table_number(table)
        self._refuse_padding(self.templates.layers[number].padding_id)
        ids = flat_int64(ids_tensor(ids, "ids"), self.templates.layers[number].input_dim)
        return self.own_tables.lookup([number], [RaggedForm(ids, None, None, None)])[0]

    def table_shape(self, table=None):
        layer = self.templates.layers[self._table_number(table)]
        return layer.input_dim, layer.output_dim

    def _table_number(self, table):
        names = self.templates.names
        return names.index(self._table_name(table, names))

    def _keyed_tables(self, method):
        tables = zip(self._built_tables(method), self.templates.layers, strict=True)
        keyed = [_keyed(table, layer.padding_id) for table, layer in tables]
        return dict(zip(self.templates.names, keyed, strict=True))

    def _own_parts(self, method):
        self._built_tables(method)
        parts = self.own_tables.by_table
        return {self.templates.names[table]: parts[table] for table in sorted(parts)}

    def get_weights(self, all_ranks=False):
        """Returns all rows of each table. All ranks must call it together.

        Args:
            all_ranks: Boolean. Whether all ranks receive the rows. Defaults to `False`: rank 0
                alone, so that other ranks need no memory for them.

        Returns:
            List of float32 arrays of shape `(input_dim, output_dim)`, in the order of tables. Ranks
            that receive no rows return a list of `None`.

        Raises:
            ValueError: The layer is not built.
            NotImplementedError: A table is dynamic.
        """
        return get_whole_tables(self._built_tables("get_weights"), all_ranks)

    def set_weights(self, weights):
        """Writes all rows of each table and keeps the slots.

        All ranks must call it together with the same weights; each rank writes its own part.

        Args:
            weights: List of arrays of shape `(input_dim, output_dim)`, in the order of tables, or
                of paths of `.npy` files with such arrays. A rank reads a file in pieces.

        Raises:
            ValueError: The layer is not built, or the number, shape or dtype of the weights is
                wrong. All ranks raise it before any table changes.
            NotImplementedError: A table is dynamic.
        """
        set_whole_tables(self._built_tables("set_weights"), weights)

    def _built_tables(self, method):
        if self.own_tables is None:
            raise ValueError(not_built_message(self, f"`{method}` must be called on"))
        return [holder.table for holder in self.table_holders]

    def save_own_variables(self, store):
        """Leaves it to the holders of the tables."""

    def load_own_variables(self, store):
        """Leaves it to the holders of the tables."""

    def get_config(self):
        of_inputs = ("dp_input", "wire_dtype", "hotness", "output_mode")
        names = (*PLACES, "memory_budget", "num_slots", *of_inputs)
        config = {name: getattr(self, name) for name in names}
        config["cost_model"] = None if self.cost_model is None else self.cost_model.get_config()
        return {**super().get_config(), **self.templates.get_config(), **config}


def _keyed(table, padding_id):
    """Returns the `Table` that all ranks ask together."""
    table = ReplicatedTable(table) if isinstance(table, LocalTable) else table
    return table if padding_id is None else PaddedTable(table, padding_id)
