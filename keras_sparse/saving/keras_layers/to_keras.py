import keras

from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.layers.all2all_embedding import All2AllEmbedding
from keras_sparse.layers.distributed_embedding import DistributedEmbedding
from keras_sparse.layers.embedding import Embedding
from keras_sparse.layers.integer_lookup import IntegerLookup
from keras_sparse.saving.keras_layers.plain_table import other_than
from keras_sparse.saving.keras_layers.plain_table import PlainTable
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.utils import checks


def to_keras(model, default=0.0):
    """Converts a model into one of Keras' own layers with the same predictions.

    A static table becomes a `keras.layers.Embedding`. A dynamic table becomes a
    `keras.layers.IntegerLookup` of its keys before a `keras.layers.Embedding`, and pooling becomes
    ops of `keras.ops`. Any process with Keras and TensorFlow loads the `.keras` file of the result,
    and its `export` writes the formats that Keras' converters know. All rows are in memory. Keys
    without a row share one row, because no layer of Keras can compute an initial row for each key.

    Args:
        model: Built functional or sequential `keras.Model` with dense inputs. It is not changed.
        default: Float. Value of all elements of the row that keys without a row read as. The number
            of an admission filter, or a constant initial row, takes precedence. Defaults to 0.

    Returns:
        `keras.Model` that is not compiled.

    Raises:
        TypeError: `model` is not a built functional or sequential model.
        NotImplementedError: The model has inputs or layers without a counterpart in Keras: ragged
            or sparse ids, All2All layers, your own layers with tables inside, or masks other than
            that of `mask_zero=True` on a static table. `model.export` takes all of them. Also
            raised on several ranks.
    """
    checks.number(default, "default")
    if size() > 1:
        raise NotImplementedError(
            "`to_keras` must be called in a single process, which has all rows. Save a "
            f"checkpoint on all ranks, and load it in a separate process. Received: {size()} "
            "ranks"
        )
    if not isinstance(model, (keras.Sequential, keras.src.models.Functional)) or not model.built:
        raise TypeError(
            "`model` must be a built functional or sequential keras.Model, whose layers are known. "
            f"Use `model.export` for others. Received: {type(model).__name__}"
        )
    if any(
        getattr(each, "ragged", False) or getattr(each, "sparse", False) for each in model.inputs
    ):
        raise NotImplementedError(
            "Inputs must be dense for a model of Keras' own layers. Pad lists of ids to equal "
            f"length with a `padding_id`, or use `model.export`. Received: model '{model.name}' "
            "with ragged or sparse inputs"
        )
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    converter = _Converter(float(default))
    clone = keras.models.clone_model(
        model, clone_function=converter.clone, call_function=lambda layer, *a, **k: layer(*a, **k)
    )
    converter.copy_weights()
    # Not compiled: the optimizer may be one of ours.
    return keras.Model(clone.input, clone.output, name=model.name)


class _Converter:
    """Converts each layer of a model into a layer of Keras' own."""

    def __init__(self, default):
        self._default = default
        self._copies: list = []

    def clone(self, layer):
        if isinstance(layer, (keras.Sequential, keras.src.models.Functional)):
            return to_keras(layer, self._default)
        if isinstance(layer, IntegerLookup):
            keys = layer.get_vocabulary()[1:]
            if not keys:
                raise NotImplementedError(
                    "An IntegerLookup must have learnt a key for a model of Keras' own layers, "
                    f"whose vocabularies are not empty. Received: layer '{layer.name}' without any"
                )
            return keras.layers.IntegerLookup(
                vocabulary=keys, oov_token=other_than(keys), mask_token=None, name=layer.name
            )
        if isinstance(layer, Embedding):
            return self._table(layer, layer.embeddings, layer.name)
        if isinstance(layer, DistributedEmbedding) and not isinstance(layer, All2AllEmbedding):
            return _PlainTables(layer, self._table)
        if _has_tables(layer):
            raise NotImplementedError(
                "Layers with tables must be Embedding, DistributedEmbedding or GroupEmbedding "
                "for a model of Keras' own layers. Use `model.export`, which supports any "
                f"layer. Received: layer '{layer.name}' of type {type(layer).__name__}"
            )
        copy = type(layer).from_config(layer.get_config())
        self._copies.append((layer, copy))
        return copy

    def copy_weights(self):
        for layer, copy in self._copies:
            if isinstance(layer, keras.layers.Layer):
                copy.set_weights(layer.get_weights())

    def _table(self, layer, variable, name):
        has_own_mask = layer.padding_id is not None or (layer.mask_zero and variable.is_dynamic)
        if layer.combiner is None and has_own_mask:
            raise NotImplementedError(
                "A table without a combiner must have no mask for a model of Keras' own layers, "
                "except a static one with mask_zero=True, because Keras' layers mask places "
                f"instead of keys. Use `model.export`. Received: table '{name}' with "
                f"mask_zero={layer.mask_zero}, padding_id={layer.padding_id}"
            )
        return PlainTable(layer, variable.table, name, self._default_of(variable.table))

    def _default_of(self, variable):
        """Returns the default of keys without a row; the table's own takes precedence."""
        waiting = getattr(variable.admission, "default_value_no_permission", "initializer")
        if waiting != "initializer":
            return waiting
        rows = variable.initial_rows
        return rows.a if rows.kind == "constant" else self._default


class _PlainTables:
    """Replaces a `DistributedEmbedding` by several `PlainTable`s."""

    def __init__(self, layer, make_table):
        templates = layer.templates
        if any(each.supports_masking and each.combiner is None for each in templates.layers):
            raise NotImplementedError(
                "Tables of one layer must not have masks for a model of Keras' own layers. Use "
                f"`model.export`. Received: layer '{layer.name}' with a masked table"
            )
        self._templates = templates
        self._mode = layer.output_mode
        self._own_inputs = layer.own_inputs
        names = [f"{layer.name}_{name}" for name in templates.names]
        parts = layer.own_tables.by_table
        self._tables = [
            make_table(each, parts[i], names[i]) for i, each in enumerate(templates.layers)
        ]

    def __call__(self, inputs, weights=None):
        templates, ops = self._templates, keras.ops
        if templates.is_matrix(inputs):
            inputs = [self._column(inputs, i) for i in range(templates.num_inputs)]
            weights = None
        else:
            inputs = templates.in_order(inputs, "inputs", self._own_inputs)
        given = [None] * len(inputs)
        if weights is not None:
            given = templates.in_order(weights, "weights", self._own_inputs, True)
        outputs = [
            self._tables[table](ids, each)
            for table, ids, each in zip(templates.input_tables, inputs, given, strict=True)
        ]
        if self._mode == "list":
            return templates.as_given(outputs)
        return (ops.concatenate if self._mode == "concat" else ops.stack)(outputs, axis=1)

    def _column(self, matrix, i):
        is_pooled = self._templates.pools(self._templates.input_tables[i])
        return matrix[:, i : i + 1] if is_pooled else matrix[:, i]


def _has_tables(layer):
    if not isinstance(layer, keras.layers.Layer):
        return False
    return any(isinstance(each, EmbeddingVariable) for each in layer.variables) or any(
        isinstance(each, IntegerLookup) for each in layer._flatten_layers()
    )
