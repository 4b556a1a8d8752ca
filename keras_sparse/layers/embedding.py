from typing import Any

import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse import ops
from keras_sparse.inputs.padding import check_padding_id
from keras_sparse.inputs.padding import mask_of
from keras_sparse.inputs.ragged_inputs import as_tensor
from keras_sparse.inputs.ragged_inputs import cast_rows
from keras_sparse.inputs.ragged_inputs import check_bags
from keras_sparse.inputs.ragged_inputs import check_id_dtype
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.ragged_inputs import ragged_form
from keras_sparse.inputs.ragged_inputs import row_dtype
from keras_sparse.layers.group_scope_stack import innermost_scope
from keras_sparse.layers.layer_introspection import not_built_message
from keras_sparse.layers.layer_introspection import options_of
from keras_sparse.layers.layer_introspection import own_computation
from keras_sparse.layers.layer_introspection import without_unsupported_arguments
from keras_sparse.layers.table_layer import TableLayer
from keras_sparse.saving.keras_files.load_table import load_table
from keras_sparse.saving.keras_files.load_table import refuse_table
from keras_sparse.saving.keras_files.save_table import save_table
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.padded_table import PaddedTable
from keras_sparse.tables.rows_regularizer import check_regularizer
from keras_sparse.tables.rows_regularizer import rows_regularizer
from keras_sparse.tables.table_config import LAYER_OPTIONS
from keras_sparse.tables.table_config import TableConfig
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class Embedding(TableLayer):
    """Looks up embedding rows and optionally pools them per sample.

    Use it in place of `keras.layers.Embedding` if the table is large or its ids are not a range.
    Rows live in a native table, and a training step reads and updates only the rows of its batch.
    With `input_dim=None` the table is dynamic and accepts any 64-bit id. Train the layer with an
    optimizer of `keras_sparse.optimizers`.

    Args:
        input_dim: Integer or `None`. Number of rows of a static table, whose ids are in
            `[0, input_dim)`. `None` makes a dynamic table, which accepts any int64 or uint64 id and
            creates the row of an id at its first gradient.
        output_dim: Integer. Width of a row.
        combiner: `"sum"`, `"mean"`, `"sqrtn"` or `None`. Pools the rows of the last axis of the
            ids; an empty bag returns zeros. `None` returns one row per id. Defaults to `None`.
        embeddings_initializer: `keras.initializers.Initializer` or its name. A static table also
            takes any callable, which is called for the whole table at once, as in Keras. This needs
            as much memory again, also on ranks with a part of the table. A callable with the
            arguments `partition_shape` and `partition_offset` is called for some thousand rows at a
            time. Glorot, He, Lecun and VarianceScaling initializers count a dynamic table as having
            `output_dim` rows. Defaults to `"uniform"`.
        seed: Integer. Seed of the initial rows; each row depends on the seed and its id. A seed
            that was given to the initializer takes precedence. Defaults to `None`: Keras' default,
            which `keras.utils.set_random_seed` makes reproducible.
        mask_zero: Boolean. Whether id 0 is padding. Without a combiner, the output carries a mask;
            with a combiner, bags leave padding out. Defaults to `False`.
        out_of_range: `"error"` or `"zero"`. The effect of an id outside a static table: an error,
            or a row of zeros that `stats()` counts. Defaults to `"error"`.
        storage: `keras_sparse.StorageOption`. The tiers that hold the rows of the table; a static
            table keeps all rows in the first tier. Defaults to `None`: memory alone.
        admission: Filter of `keras_sparse.storage`, such as `CounterFilter`. Decides when an id of
            a dynamic table gets a row. Defaults to `None`: at its first gradient.
        eviction: Policy of `keras_sparse.storage`, such as `GlobalStepEvict`. Decides which rows
            leave a dynamic table; `LruEvict` and `LfuEvict` make room in a table with `max_rows`.
            Defaults to `None`: no eviction.
        embeddings_regularizer: `keras.regularizers.Regularizer`, its name, or a function of a float
            tensor. As in Keras, the loss depends on all rows, so only static tables take it. Each
            step then reads and updates the whole table and needs memory for two more copies; the
            `weight_decay` of an optimizer costs less for large tables. Defaults to `None`.
        max_rows: Integer. Largest number of rows of a dynamic table, in all tiers together and on
            each rank. Before an update that would exceed it, `eviction` makes room; rows of the
            update itself stay. If room is still missing, the update raises
            `tf.errors.ResourceExhaustedError` and changes nothing, on all ranks that share one
            `keras_sparse.distribute.DistributedOptimizer`. An id that `admission` rejects needs no
            room. Loading keeps every saved row. Defaults to `None`: no limit.
        padding_id: Integer that fits int64, inside or outside the range of the table. An id that is
            padding: it has no row and trains nothing. Without a combiner it returns zeros and the
            output carries a mask; with a combiner, bags leave it out. Excludes `mask_zero=True`.
            Defaults to `None`.
        frequency: Boolean. Whether a dynamic table counts, in 4 bytes per row, the training steps
            in which each row had a gradient. `export(with_frequencies=True)` and
            `keras_sparse.serving.export_options(rows="most_used:N")` need these counts. `LfuEvict`
            counts without this option. Defaults to `False`.
        row_dtype: `"float32"`, `"bfloat16"` or `"float16"`. The dtype in which rows are stored, in
            all tiers, between ranks and in files. Updates compute in float32. Defaults to
            `"float32"`.
        slot_dtype: `"float32"` or `"bfloat16"`. Likewise for the optimizer's slots with one float
            per element; slots with one float per row stay float32. An optimizer raises `ValueError`
            for slots that would break its training. Defaults to `"float32"`.
        rounding: `"stochastic"` or `"nearest"`. How updates round to these dtypes. Stochastic
            rounding draws its random bits from the table's seed, the id, the step and the column,
            so that a run is reproducible; rounding to the nearest loses updates smaller than half a
            bit of the row. Defaults to `"stochastic"`.
        **kwargs: `name`, `dtype`, `trainable` and `activity_regularizer` of `keras.layers.Layer`.
            Outputs have the compute dtype of the dtype policy. Other options
            of `keras.layers.Embedding` are accepted, so that its config loads, but must be off.

    Call arguments:
        inputs: Ids of any integer dtype: a tensor or array of any rank, nested lists, a 2-D
            RaggedTensor or a SparseTensor. A static table of at most 2**24 rows also takes floats.
        weights: Weight of each id, in the structure of `inputs`. With a combiner, pools to a
            weighted sum, to a mean divided by the sum of the weights, or to a `"sqrtn"` sum divided
            by the root of the sum of squared weights. Without a combiner, multiplies each row by
            its weight. Defaults to `None`: 1 for each id.

    Input shape: `(..., hotness)`, of any rank.
    Output shape: `(..., output_dim)` with a combiner, `(..., hotness, output_dim)` without; ragged
        for a RaggedTensor without a combiner.

    Example:
    >>> layer = Embedding(None, 16, combiner="mean")
    >>> layer(tf.ragged.constant([[4, 2**40], [], [7]])).shape
    TensorShape([3, 16])
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        combiner=None,
        embeddings_initializer="uniform",
        seed=None,
        mask_zero=False,
        out_of_range="error",
        storage=None,
        admission=None,
        eviction=None,
        embeddings_regularizer=None,
        max_rows=None,
        padding_id=None,
        frequency=False,
        row_dtype="float32",
        slot_dtype="float32",
        rounding="stochastic",
        **kwargs,
    ):
        super().__init__(**without_unsupported_arguments(kwargs))
        config = TableConfig(
            input_dim,
            output_dim,
            embeddings_initializer,
            seed,
            out_of_range,
            storage,
            admission,
            eviction,
            max_rows=max_rows,
            frequency=frequency,
            row_dtype=row_dtype,
            slot_dtype=slot_dtype,
            rounding=rounding,
        )
        for name in LAYER_OPTIONS:
            setattr(self, name, getattr(config, name))
        self.embeddings_initializer = config.initializer
        self.combiner = checks.one_of(combiner, (None, *native.COMBINERS), "combiner")
        self.mask_zero = checks.boolean(mask_zero, "mask_zero")
        self.padding_id = check_padding_id(padding_id, mask_zero)
        self.embeddings_regularizer = check_regularizer(embeddings_regularizer, input_dim)
        if self.variable_dtype != "float32" or self.quantization_mode is not None:
            raise ValueError(
                "`dtype` must be a policy with float32 variables: float32, mixed_float16 or "
                "mixed_bfloat16. Pass `row_dtype` to store rows in fewer bits. Received: "
                f"dtype={self.dtype_policy.name}"
            )
        self.supports_masking = mask_zero or padding_id is not None
        self.supports_jit = False  # the native ops have no XLA kernel
        self.autocast = False  # ids are not cast
        self._embeddings: Any = None
        self.group = None  # name of the layer that has the table, if it is not this one
        self.template_of = None  # name of the layer that has a table of these options, likewise

    def __call__(self, inputs, weights=None, **kwargs):
        inputs = ids_as_tensor(inputs)
        if weights is not None:
            kwargs["weights"] = as_tensor(weights)
        scope = innermost_scope()
        if scope is not None and isinstance(inputs, keras.KerasTensor):
            return scope.add(self, inputs, **kwargs)
        self._refuse_group()
        return super().__call__(inputs, **kwargs)

    def _refuse_group(self):
        if self.group is not None:
            raise ValueError(
                f"Layer '{self.name}' must be called in the `group_embedding_scope` of its first "
                f"call: its table belongs to layer '{self.group}'"
            )

    @property
    def embeddings(self):
        """The `EmbeddingVariable` of the layer. Raises `AttributeError` until it is built."""
        if self._embeddings is None:  # as Keras' layer raises it, for `hasattr`
            raise AttributeError(not_built_message(self, "`embeddings` must be read of"))
        return self._embeddings

    def build(self, input_shape=None):
        if self._embeddings is not None:
            return
        self._embeddings = EmbeddingVariable(**vars(TableConfig.of_layer(self)))
        # Tracked as trainable, so that a frozen layer can be unfrozen.
        self.embeddings.trainable = self.trainable
        self.embeddings.regularizer = rows_regularizer(self.embeddings_regularizer)

    def call(self, inputs, weights=None):
        form = ragged_form(
            inputs, weights, self.combiner, self.input_dim, self.mask_zero, self.padding_id
        )
        pooled = form.row_splits is not None
        (rows,) = native.lookup(
            [self.embeddings],
            [form.ids],
            [form.row_splits],
            [form.weights if pooled else None],
            [self.combiner if pooled else None],
            dtype=row_dtype([self.compute_dtype], [form]),
        )
        if form.weights is not None and not pooled:
            rows *= form.weights[:, tf.newaxis]
        return form.outputs(cast_rows(rows, self.compute_dtype))

    def compute_mask(self, inputs, previous_mask=None):
        if not self.supports_masking or self.combiner is not None:
            return None
        return mask_of(inputs, self.padding_id)

    def compute_output_shape(self, input_shape):
        check_bags(input_shape, self.combiner)
        axes = input_shape if self.combiner is None else input_shape[:-1]
        return (*axes, self.output_dim)

    def compute_output_spec(self, inputs, weights=None):
        check_id_dtype(tf.as_dtype(inputs.dtype), self.input_dim)
        return keras.KerasTensor(
            self.compute_output_shape(inputs.shape),
            dtype=self.compute_dtype,
            ragged=bool(getattr(inputs, "ragged", False)) and self.combiner is None,
        )

    def stats(self, frequencies=False):
        """Returns statistics of the table and its tiers.

        Args:
            frequencies: Boolean. Whether to read all rows and also count them by frequency.
                Defaults to `False`.

        Returns:
            Dict of the numbers that `EmbeddingVariable.stats` documents.

        Raises:
            RuntimeError: The layer is not built.
        """
        return self._built_table("stats").stats(frequencies)

    def evict(self, with_rows=False):
        """Evicts the rows that the eviction policy of the table selects.

        Args:
            with_rows: Boolean. Whether to return the evicted rows instead of their number. Defaults
                to `False`.

        Returns:
            Integer, the number of evicted rows; with `with_rows=True`, the `(keys, records)` that
            `EmbeddingVariable.evict` documents.

        Raises:
            ValueError: The table has no eviction policy.
            RuntimeError: The layer is not built, or the call is inside a `tf.function`.
        """
        return self._built_table("evict").evict(with_rows)

    def lookup_rows(self, ids, table=None):
        self._table_name(table, [self.name])
        self._refuse_padding(self.padding_id)
        return ops.embedding_lookup(self._built_table("lookup_rows"), ids)

    def table_shape(self, table=None):
        self._table_name(table, [self.name])
        return self.input_dim, self.output_dim

    def _keyed_tables(self, method):
        table = self._built_table(method).table
        return {
            self.name: table if self.padding_id is None else PaddedTable(table, self.padding_id)
        }

    def _built_table(self, method):
        if self._embeddings is None:
            raise RuntimeError(not_built_message(self, f"`{method}` must be called on"))
        return self._embeddings

    def save_own_variables(self, store):
        if self.built:
            save_table(self.embeddings, store)

    def load_own_variables(self, store):
        if self.built:
            load_table(self.embeddings, store)
        else:
            refuse_table(self, self.name, store)

    def get_config(self):
        own = ("combiner", "embeddings_initializer", "mask_zero", "embeddings_regularizer")
        names = (*LAYER_OPTIONS, *own, "padding_id")
        options = {name: getattr(self, name) for name in names}
        config = {n: keras.saving.serialize_keras_object(each) for n, each in options.items()}
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        """Creates a layer from its config or from that of a `keras.layers.Embedding`.

        Raises:
            ValueError: The config of the Keras layer sets an option that this layer does not
                support.
        """
        # Here too: Keras would wrap the error of the constructor in one that prints the config.
        return super().from_config(without_unsupported_arguments(config))

    @classmethod
    def from_keras(cls, layer):
        """Creates a layer with the options and rows of a built `keras.layers.Embedding`.

        Args:
            layer: Built `keras.layers.Embedding`. It is not changed.

        Returns:
            Built `Embedding`.

        Raises:
            TypeError: `layer` is not a `keras.layers.Embedding`, or is of a subclass that computes
                something else.
            ValueError: `layer` is not built, or uses an option that this layer does not support.
        """
        if not isinstance(layer, keras.layers.Embedding):
            raise TypeError(
                f"`layer` must be a keras.layers.Embedding. Received: {type(layer).__name__}"
            )
        if not layer.built:
            raise ValueError(
                "`layer` must be built, so that it has rows to copy. Call it once first, or use "
                f"`from_config(layer.get_config())`. Received: unbuilt layer '{layer.name}'"
            )
        own = own_computation(layer, keras.layers.Embedding)
        if own is not None:
            raise TypeError(
                "`layer` must compute the same as keras.layers.Embedding, because only its rows "
                "and options are copied. Pass a plain layer, and compute the rest in another "
                f"layer. Received: layer '{layer.name}' of type {type(layer).__name__} with its "
                f"own `{own}`"
            )
        ours = cls(**options_of(layer, Embedding))
        ours.build()
        ours.embeddings.assign(layer.embeddings)
        return ours
