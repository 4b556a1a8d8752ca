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
    """Looks up a row for each id, and pools the rows of a sample if asked to.

    Stands in for `keras.layers.Embedding` where the table is large or its ids are not a range: rows
    live in a native table, a step touches the rows of its batch alone, and `input_dim=None` takes
    any 64-bit key. Train it with the optimizers of `keras_sparse.optimizers`.

    Args:
        input_dim: Integer, rows of the table; ids are below it. `None` for a dynamic table, whose
            ids are any int64 or uint64 and which makes the row of an id at its first gradient.
        output_dim: Integer. Width of a row.
        combiner: `"sum"`, `"mean"` or `"sqrtn"` pools the rows of the last axis; an empty bag gives
            zeros. `None` gives a row an id. Defaults to `None`.
        embeddings_initializer: A `keras.initializers.Initializer` or its name; for a static table
            also any callable, which is called for the whole table, as in Keras: that takes as much
            memory again, also where ranks have parts. If its call names the arguments
            `partition_shape` and `partition_offset` it is asked for some thousands of rows at a
            time. For the fans of Glorot, He, Lecun and VarianceScaling a dynamic table has
            `output_dim` rows. Defaults to `"uniform"`.
        seed: Integer. With an id, decides its initial row. Defaults to `None`: the initializer's
            seed, or else Keras' default, which `keras.utils.set_random_seed` makes reproducible.
        mask_zero: Boolean. Whether id 0 is padding: the output carries a mask, or a bag leaves it
            out. Defaults to `False`.
        padding_id: Integer: an id that is padding, of int64, in the range of the table or not. It
            has no row, and nothing learns from it: it reads as zeros, or a bag leaves it out, and
            the output of a layer without a combiner carries a mask. Defaults to `None`.
        out_of_range: `"error"` or `"zero"`: what an id outside a static table does; a row of zeros
            is counted in `stats()`. Defaults to `"error"`.
        storage: `keras_sparse.StorageOption`: the tiers that a dynamic table keeps its rows in.
            Defaults to `None`, memory alone.
        admission: A filter of `keras_sparse.storage`, like `CounterFilter`: says when an id of a
            dynamic table gets its row. Defaults to `None`: at its first gradient.
        eviction: A policy of `keras_sparse.storage`, like `GlobalStepEvict`: says which rows of a
            dynamic table go; `LruEvict` and `LfuEvict` make room in one of `max_rows`. Defaults to
            `None`: none.
        embeddings_regularizer: `keras.regularizers.Regularizer`, its name, or a function of a float
            tensor. As in Keras a loss of all rows, so for static tables alone, and a step then
            reads and moves the whole table, with memory for two more: for large ones the
            `weight_decay` of an optimizer costs less. Defaults to `None`.
        max_rows: Integer: the most rows that a dynamic table may have, in all tiers and on each
            rank. Before an update that would make more, rows go by `eviction`, but none that the
            update is for; if there is still too little room for what is new, the update is a
            `tf.errors.ResourceExhaustedError` and changes nothing, on all ranks that train by
            one `keras_sparse.distribute.DistributedOptimizer`. An id that `admission` keeps out
            needs no room, and rows that are loaded are all kept. Defaults to `None`: any number.
        frequency: Boolean. Whether a dynamic table counts, in 4 bytes a row, in how many training
            steps each row had a gradient: for `export(with_frequencies=True)` and
            `keras_sparse.serving.export_options(rows="most_used:N")`. `LfuEvict` counts without it.
            Defaults to `False`.
        **kwargs: `name`, `dtype`, `trainable`, `activity_regularizer` as in `keras.layers.Layer`.
            Rows are float32; outputs have the dtype policy's compute dtype. Options that
            `keras.layers.Embedding` has beside these may be there, so that its config serves, but
            must be off.

    Call arguments:
        inputs: Ids, of any integer type: a tensor or array of any rank, nested lists, a 2-D
            RaggedTensor or SparseTensor. Floats only for a static table of at most 2**24 rows.
        weights: Weight of each id, of the structure of `inputs`: a weighted sum, mean (over the sum
            of the weights) or sqrtn (over the root of the sum of their squares); without a
            combiner each row times its weight. Defaults to `None`, ones.

    Input shape: any, `(..., hotness)`.
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
                "`dtype` must be a policy with float32 variables, as rows are float32: float32, "
                f"mixed_float16 or mixed_bfloat16. Received: dtype={self.dtype_policy.name}"
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
                f"Layer '{self.name}' must be called in the `group_embedding_scope` that it was "
                f"first called in: its table is one of layer '{self.group}'"
            )

    @property
    def embeddings(self):
        """The table: an `EmbeddingVariable`, once the layer is built."""
        if self._embeddings is None:  # the error is that of Keras' layer, for `hasattr`
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
        """Returns the table's statistics: see `EmbeddingVariable.stats`."""
        return self._built_table("stats").stats(frequencies)

    def evict(self, with_rows=False):
        """Lets go of the rows that `eviction` names: see `EmbeddingVariable.evict`."""
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
        """Makes a layer from its config, or from that of a `keras.layers.Embedding`.

        Raises:
            ValueError: The config of the Keras layer uses an option that this layer does not have.
        """
        # Here too: Keras would wrap the error of the constructor in one that prints the config.
        return super().from_config(without_unsupported_arguments(config))

    @classmethod
    def from_keras(cls, layer):
        """Makes a layer with the rows of a built `keras.layers.Embedding`.

        Args:
            layer: The Keras layer. It is left as it is.

        Returns:
            A built layer of the same config and rows.
        """
        if not isinstance(layer, keras.layers.Embedding):
            raise TypeError(
                f"`layer` must be a keras.layers.Embedding. Received: {type(layer).__name__}"
            )
        if not layer.built:
            raise ValueError(
                "`layer` must be built, so that it has rows to take. Call it once first, or use "
                f"`from_config(layer.get_config())`. Received: unbuilt layer '{layer.name}'"
            )
        own = own_computation(layer, keras.layers.Embedding)
        if own is not None:
            raise TypeError(
                "`layer` must compute what keras.layers.Embedding does, as its rows and options "
                "are all that is taken. Take it of a plain one, and do the rest in a layer of its "
                f"own. Received: layer '{layer.name}' of type {type(layer).__name__} with its own "
                f"`{own}`"
            )
        ours = cls(**options_of(layer, Embedding))
        ours.build()
        ours.embeddings.assign(layer.embeddings)
        return ours
