import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.planner.table_spec import TableSpec
from keras_sparse.layers.embedding import Embedding
from keras_sparse.layers.layer_introspection import options_of
from keras_sparse.layers.layer_introspection import own_computation
from keras_sparse.ops.output_mode import check_output_mode
from keras_sparse.ops.output_mode import check_same_kind
from keras_sparse.ops.output_mode import joined_mask
from keras_sparse.ops.output_mode import joined_shape
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model
from keras_sparse.storage.storage_option import StorageOption

_KNOWN = (Embedding, keras.layers.Embedding)


class TableConfigs:
    """The tables and inputs of a `DistributedEmbedding`: what it was given, put in order.

    Args:
        embeddings: List of embedding layers, a dict of them by name, or one of them, whose inputs
            and outputs then come as they are.
        input_table_map: For a list: a list of integers; for a dict: a dict of names of tables by
            names of inputs. `None` for an input a table.
        owner: String. The name of that layer.

    Attributes:
        is_single: Boolean. Whether it was given one layer.
        layers: List of unbuilt `Embedding`, one a table. They have its options.
        names: List of strings, one a table.
        input_names: List of strings if inputs come in a dict; otherwise `None`.
        input_tables: List of integers: the place in `layers` of the table of each input.
    """

    def __init__(self, embeddings, input_table_map, owner):
        self.is_single = isinstance(embeddings, keras.layers.Layer) or _is_saved_layer(embeddings)
        if self.is_single:
            _check_single(input_table_map)
            embeddings = [embeddings]
        if not isinstance(embeddings, (list, tuple, dict)) or not embeddings:
            raise ValueError(
                "`embeddings` must be a list or dict of at least one embedding layer, or one of "
                f"them. Received: embeddings={embeddings!r}"
            )
        is_dict = isinstance(embeddings, dict)
        given = embeddings.values() if isinstance(embeddings, dict) else embeddings
        self.layers = [_as_embedding(layer) for layer in given]
        # The classes that automatic names come from.
        self.kinds = {type(layer).__name__ for layer in given}
        for layer in given:
            if isinstance(layer, Embedding):
                layer.template_of = owner
        self._is_on_gpu = any((each.storage or StorageOption()).is_on_gpu for each in self.layers)
        self.names = list(embeddings) if is_dict else [layer.name for layer in self.layers]
        self.input_names = None
        if is_dict:
            table_of = input_table_map or {name: name for name in self.names}
            self._check_map(table_of, dict)
            self.input_names = list(table_of)
            table_of = list(table_of.values())
            self._check_tables(table_of, self.names)
            self.input_tables = [self.names.index(name) for name in table_of]
        else:
            table_of = range(len(self.layers)) if input_table_map is None else input_table_map
            self._check_map(table_of, (list, tuple, range))
            self._check_tables(table_of, range(len(self.layers)))
            self.input_tables = [int(table) for table in table_of]

    def _check_map(self, table_of, kinds):
        if not isinstance(table_of, kinds):
            raise TypeError(
                "`input_table_map` must be a list for a list of layers, and a dict for a dict. "
                f"Received: input_table_map={table_of!r}"
            )

    def _check_tables(self, table_of, known):
        for i, table in enumerate(table_of):
            if table not in known:
                raise ValueError(
                    f"`input_table_map` must hold tables of {list(known)}. Received: {table!r} "
                    f"for input {i if self.input_names is None else self.input_names[i]}"
                )

    @property
    def num_inputs(self):
        """Integer. How many inputs the layer takes."""
        return len(self.input_tables)

    def layer_of_input(self, i):
        """Returns the `Embedding` that has the options of the table of an input."""
        return self.layers[self.input_tables[i]]

    def pools(self, table):
        """Returns whether outputs of the table with this place are pooled."""
        return self.layers[table].combiner is not None

    def in_order(self, inputs, name, places=None, fills_gaps=False):
        """Returns what was given for each input as a list, in their order.

        Args:
            inputs: List or dict, as the layer takes inputs.
            name: String, what an error calls them.
            places: List of integers: which inputs are given. Defaults to `None`, all.
            fills_gaps: Boolean. Whether what a dict lacks is `None`. Defaults to `False`.
        """
        if self.is_single:
            return [inputs]
        places = range(self.num_inputs) if places is None else places
        if self.input_names is not None:
            names = [self.input_names[i] for i in places]
            if fills_gaps and isinstance(inputs, dict):
                inputs = {**dict.fromkeys(names), **inputs}
            if not isinstance(inputs, dict) or set(inputs) != set(names):
                got = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
                raise ValueError(f"`{name}` must be a dict with the keys {names}. Received: {got}")
            return [inputs[key] for key in names]
        if not isinstance(inputs, (list, tuple)) or len(inputs) != len(places):
            is_list = isinstance(inputs, (list, tuple))
            of_rank = "" if len(places) == self.num_inputs else f", of this rank's {list(places)}"
            raise ValueError(
                f"`{name}` must be a list with one entry per input, {len(places)}{of_rank}. "
                f"Received: {len(inputs) if is_list else type(inputs).__name__}"
            )
        return list(inputs)

    def is_matrix(self, inputs):
        """Returns whether these are the ids of all inputs in one tensor or array."""
        is_one = not isinstance(inputs, (list, tuple, dict)) and hasattr(inputs, "shape")
        return is_one and not self.is_single

    def check_output_mode(self, mode):
        """Returns `mode`; raises ValueError if the layer cannot have it as its `output_mode`."""
        layers = [self.layer_of_input(i) for i in range(self.num_inputs)]
        check_output_mode(mode, [layer.output_dim for layer in layers])
        dtypes = sorted({layer.compute_dtype for layer in layers})
        if mode != "list" and (self.is_single or len(dtypes) > 1):
            raise ValueError(
                f'`output_mode="{mode}"` must be used with a list or dict of layers of one '
                "compute dtype. Give the layers one dtype policy, or leave the option out. "
                "Received: " + ("one layer" if self.is_single else f"layers of {dtypes}")
            )
        return mode

    def given(self, inputs, name, places):
        """Returns what `in_order` does, also of a matrix with a column an input."""
        read = self._columns if self.is_matrix(inputs) else self.in_order
        return read(inputs, name, places)

    def _columns(self, matrix, name, places):
        """Takes a dense matrix apart; a table that pools gets a bag of one a sample."""
        shape = tf.TensorShape(matrix.shape)
        is_dense = not (
            isinstance(matrix, (tf.SparseTensor, tf.RaggedTensor))
            or getattr(matrix, "sparse", False)
            or getattr(matrix, "ragged", False)
        )
        if not is_dense or shape.rank != 2 or shape[1] != len(places):
            raise ValueError(
                f"`{name}` must be a list or dict with one entry per input, or a dense matrix "
                f"with one column per input, (batch_size, {len(places)}). Received: "
                f"{type(matrix).__name__} of shape {shape}"
            )
        pools = [self.pools(self.input_tables[i]) for i in places]
        if isinstance(matrix, keras.KerasTensor):
            shapes = [(matrix.shape[0], 1) if each else matrix.shape[:1] for each in pools]
            return [keras.KerasTensor(shape, matrix.dtype) for shape in shapes]
        matrix = tf.convert_to_tensor(matrix)
        if pools and self._has_native_columns(matrix):
            return native.id_columns(matrix, pools)
        # One transposition, whose rows are not copied.
        columns = tf.transpose(matrix)
        if all(pools):
            return tf.unstack(columns[:, :, tf.newaxis], len(places))
        pairs = zip(tf.unstack(columns, len(places)), pools, strict=True)
        return [each[:, tf.newaxis] if pools else each for each, pools in pairs]

    def _has_native_columns(self, matrix):
        """Returns whether the native op takes this matrix apart.

        TensorFlow does for a SavedModel, which has no native op, and for tables in a GPU's memory:
        one matrix is sent to the GPU in less time than its columns.
        """
        is_for_op = matrix.dtype in (tf.int32, tf.int64)
        return is_for_op and not self._is_on_gpu and not is_for_saved_model()

    def as_given(self, outputs, places=None):
        """Returns a list with an entry an input, or one of each of some, as inputs are given."""
        if self.is_single:
            return outputs[0]
        if self.input_names is None:
            return outputs
        places = range(self.num_inputs) if places is None else places
        return dict(zip([self.input_names[i] for i in places], outputs, strict=True))

    def specs(self, num_slots, hotness):
        """Returns what a plan has to know of the tables: a list of `TableSpec`.

        Args:
            num_slots: Integer. Slots of the optimizer that are as wide as a row.
            hotness: List or dict of the mean number of ids of each input; `None` for 1 each.
        """
        of_inputs = [1.0] * self.num_inputs
        if hotness is not None:
            of_inputs = self.in_order(hotness, "hotness")
        of_tables: list[list[float]] = [[] for _ in self.layers]
        for table, number in zip(self.input_tables, of_inputs, strict=True):
            of_tables[table].append(number)
        return [
            TableSpec(
                name,
                layer.input_dim,
                layer.output_dim,
                layer.combiner,
                tuple(numbers),
                num_slots,
                layer.trainable,
                _first_tier_bytes(layer.storage),
                layer.row_dtype,
                layer.slot_dtype,
            )
            for name, layer, numbers in zip(self.names, self.layers, of_tables, strict=True)
        ]

    def get_config(self):
        """Returns what the templates are made from, as a dict that can be saved."""
        layers = [keras.saving.serialize_keras_object(layer) for layer in self.layers]
        if self.is_single:
            return {"embeddings": layers[0]}
        if self.input_names is None:
            return {"embeddings": layers, "input_table_map": self.input_tables}
        tables = [self.names[table] for table in self.input_tables]
        return {
            "embeddings": dict(zip(self.names, layers, strict=True)),
            "input_table_map": dict(zip(self.input_names, tables, strict=True)),
        }


def _is_saved_layer(embeddings):
    """Returns whether this is what a config has of one layer, rather than a dict of layers."""
    return isinstance(embeddings, dict) and isinstance(embeddings.get("class_name"), str)


def _check_single(input_table_map):
    if input_table_map is not None:
        raise ValueError(
            "`input_table_map` must be None for one layer, which has one input. Pass a list of "
            f"layers. Received: input_table_map={input_table_map!r}"
        )


def _first_tier_bytes(storage):
    """Returns the bytes of memory of a table with a storage, or `None` if they are not known."""
    return storage.storage_size[0] if storage is not None and storage.storage_size else None


def _as_embedding(layer):
    """Returns an unbuilt `Embedding` with the options of an embedding layer."""
    if isinstance(layer, dict):
        layer = keras.saving.deserialize_keras_object(layer)
    known = next((each for each in _KNOWN if isinstance(layer, each)), None)
    own = None if known is None else own_computation(layer, known)
    if known is None or own is not None:
        raise TypeError(
            "`embeddings` must hold embedding layers: keras.layers.Embedding, "
            "keras_sparse.layers.Embedding or a subclass that computes nothing else, because "
            "they are looked up together without being called. Pass such a layer, and compute "
            "the rest from the outputs of this layer, in another layer. Received: "
            f"{_described(layer, own)}"
        )
    if layer.built:
        raise ValueError(
            "`embeddings` must hold layers that are not built. Pass new layers, and write their "
            f"rows with `set_weights`. Received: built layer '{layer.name}'"
        )
    if layer.activity_regularizer is not None:
        raise NotImplementedError(
            "`activity_regularizer` is not supported here: add the loss to the model with "
            f"`add_loss`. Received: layer '{layer.name}' with one"
        )
    return Embedding(**options_of(layer, Embedding))


def _described(layer, own):
    if not isinstance(layer, keras.layers.Layer):
        return repr(layer)
    has = "" if own is None else f" with its own `{own}`"
    return f"layer '{layer.name}' of type {type(layer).__name__}{has}"


class OutputForm:
    """How a layer of many inputs gives its outputs: as inputs are given, or all in one tensor.

    Args:
        templates: `TableConfigs`.
        mode: String, one of `OUTPUT_MODES`, which `templates.check_output_mode` has taken.
    """

    def __init__(self, templates, mode):
        self._mode = mode
        self._templates = templates

    def of(self, outputs):
        """Returns outputs as the layer gives them: a list with one an input, or already joined."""
        return self._templates.as_given(outputs) if self._mode == "list" else outputs

    def mask(self, masks):
        """Returns the mask of the outputs; `masks` is a list of that of each input, or `None`."""
        if masks is None:
            return None
        if self._mode == "list":
            return self._templates.as_given(masks)
        return joined_mask(masks, self._mode)

    def spec(self, specs):
        """Returns the `keras.KerasTensor` of the outputs, of a list of those of each input."""
        if self._mode == "list":
            return self._templates.as_given(specs)
        shape = joined_shape([spec.shape for spec in specs], self._mode)
        are_ragged = [bool(getattr(spec, "ragged", False)) for spec in specs]
        check_same_kind(are_ragged)
        return keras.KerasTensor(tuple(shape), specs[0].dtype, ragged=are_ragged[0])


def ids_of_shapes(shapes):
    """Returns `keras.KerasTensor`s of ids of these shapes.

    Args:
        shapes: Tuple of integers and `None`, or a list, tuple or dict of such.
    """
    if isinstance(shapes, dict):
        return {name: ids_of_shapes(shape) for name, shape in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return keras.KerasTensor(tuple(shapes), "int64")
    return [ids_of_shapes(shape) for shape in shapes]
