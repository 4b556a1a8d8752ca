import contextlib

import keras
import tensorflow as tf

from keras_sparse import checks
from keras_sparse.distribute.runtime import rank
from keras_sparse.distribute.runtime import size
from keras_sparse.layers.group_embedding import GroupEmbedding
from keras_sparse.layers.late_rows import LateRows
from keras_sparse.layers.late_symbol import LateSymbol
from keras_sparse.layers.look_up_together import look_up_together
from keras_sparse.layers.open_group_scopes import open_group_scopes


@contextlib.contextmanager
def group_embedding_scope(name=None, mode="collective"):
    """Looks up together what `keras_sparse.layers.Embedding` layers are called with inside of it.

    One native op, and over ranks one exchange, does it at the first use of any of their outputs, or
    when the scope ends. Stands in for DeepRec's `group_embedding_column_scope`.

    In a functional model the layers become tables of one `GroupEmbedding`, which the model has in
    their place; they must be new, and called in this scope alone, as often as you like. In the
    `call` of a subclassed model, or anywhere else that they are called with tensors, they keep
    their tables and rows are the same as without the scope: that is for one rank, or
    `mode="localized"`.

    Args:
        name: String, of the `GroupEmbedding`. Defaults to `None`: Keras' own.
        mode: `"collective"` or `"localized"`, as of `GroupEmbedding`. Defaults to `"collective"`.

    Raises:
        ValueError: In a functional model, a layer has a table already, or is called again later.
        NotImplementedError: Layers are called with tensors, on several ranks, in "collective" mode.

    Example:
    >>> users, items = keras.Input((), dtype="int64"), keras.Input((5,), dtype="int64")
    >>> with keras_sparse.layers.group_embedding_scope(name="group"):
    ...     user = keras_sparse.layers.Embedding(None, 8)(users)
    ...     item = keras_sparse.layers.Embedding(None, 16, "mean")(items)
    >>> model = keras.Model([users, items], keras.layers.Concatenate()([user, item]))
    >>> [layer.name for layer in model.layers if layer.weights]
    ['group']
    """
    checks.one_of(mode, ("collective", "localized"), "mode")
    scope = _GroupScope(name, mode)
    open_group_scopes.stack.append(scope)
    try:
        yield
    except BaseException:
        scope.is_broken = True
        raise
    finally:
        open_group_scopes.stack.pop()
    scope.call_symbols()
    scope.look_up_tensors()


class _GroupScope:
    """What waits to be looked up together: (layer, inputs, weights, late output) of each call."""

    def __init__(self, name, mode):
        self._name = name
        self._mode = mode
        self._symbols = []
        self._tensors = []
        self._graph = None  # that the tensors are in; None if they are eager
        self.is_broken = False

    def look_up(self, layer, inputs, weights=None):
        """Returns what stands for the output of a layer.

        Args:
            layer: `Embedding`.
            inputs, weights: As `Embedding.call` takes them, or `keras.KerasTensor` of them.
        """
        if isinstance(inputs, keras.KerasTensor):
            return self._add_symbol(layer, inputs, weights)
        return self._add_tensor(layer, inputs, weights)

    def _add_symbol(self, layer, inputs, weights):
        _check_new(layer)
        spec = layer.compute_output_spec(inputs, weights)
        late = LateSymbol(self.call_symbols, spec)
        self._symbols.append((layer, inputs, weights, late))
        return late

    def call_symbols(self):
        """Makes a `GroupEmbedding` of the layers that were called with symbols, and calls it."""
        self._refuse_broken()
        if not self._symbols:
            return
        called, inputs, weights, late = zip(*self._symbols, strict=True)
        self._symbols = []
        layers = list(dict.fromkeys(called))
        places = [layers.index(layer) for layer in called]
        group = GroupEmbedding(layers, self._mode, input_table_map=places, name=self._name)
        for layer in layers:
            layer.group = group.name
        self._name = None  # of one layer
        has_weights = any(each is not None for each in weights)
        outputs = group(list(inputs), list(weights) if has_weights else None)
        for each, output in zip(late, outputs, strict=True):
            each.set(output)

    def _add_tensor(self, layer, inputs, weights):
        if self._mode == "collective" and size() > 1:
            raise NotImplementedError(
                f"[rank {rank()} of {size()}] Layers that `group_embedding_scope` spreads over "
                "ranks must be called in a functional model. Make a `GroupEmbedding` of them, or "
                f"use mode=\"localized\". Received: layer '{layer.name}' called with tensors"
            )
        if not _can_wait(layer, inputs):
            return keras.layers.Layer.__call__(layer, inputs, weights=weights)
        if not layer.built:
            layer.build(inputs.shape)
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if graph is not self._graph:
            self.look_up_tensors()
        self._graph = graph
        inputs = tf.convert_to_tensor(inputs) if not _is_composite(inputs) else inputs
        shape = tf.TensorShape(layer.compute_output_shape(inputs.shape))
        late = LateRows(self.look_up_tensors, shape, tf.as_dtype(layer.compute_dtype))
        self._tensors.append((layer, inputs, weights, late))
        return late

    def look_up_tensors(self):
        """Looks up what layers were called with tensors for, in the graph that these are in."""
        self._refuse_broken()
        if not self._tensors:
            return
        layers, inputs, weights, late = zip(*self._tensors, strict=True)
        self._tensors = []
        where = tf.init_scope() if self._graph is None else self._graph.as_default()
        if self._graph is None and tf.executing_eagerly():
            where = contextlib.nullcontext()  # a tape outside of an init_scope sees nothing in it
        with where:
            outputs = look_up_together(layers, inputs, weights)
        for each, output in zip(late, outputs, strict=True):
            each.set(output)

    def _refuse_broken(self):
        if self.is_broken:
            raise RuntimeError(
                "What was called in a `group_embedding_scope` that an error has ended is never "
                "looked up. Call the layers again"
            )


def _check_new(layer):
    if layer.group is not None or layer.built:
        where = f"in layer '{layer.group}'" if layer.group is not None else "of its own"
        raise ValueError(
            "A layer must be new in a `group_embedding_scope`, and all calls of it be in that one, "
            "before an output of the scope is used: its table is to be one of a group. Received: "
            f"layer '{layer.name}', which has its table {where}"
        )


def _can_wait(layer, inputs):
    """Whether an output of a layer can be a `LateRows`: dense, and nothing else but rows."""
    makes_sequences = layer.combiner is None
    is_ragged = isinstance(inputs, tf.RaggedTensor) and makes_sequences
    has_mask = layer.mask_zero and makes_sequences
    return not (is_ragged or has_mask or layer.activity_regularizer is not None)


def _is_composite(inputs):
    return isinstance(inputs, (tf.RaggedTensor, tf.SparseTensor))
