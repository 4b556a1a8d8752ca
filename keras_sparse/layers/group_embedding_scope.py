import contextlib

import keras

from keras_sparse.layers.embedding import Embedding
from keras_sparse.layers.group_embedding import GroupEmbedding
from keras_sparse.layers.group_scope_stack import entered
from keras_sparse.layers.layer_introspection import own_computation
from keras_sparse.utils import checks


@contextlib.contextmanager
def group_embedding_scope(name=None, mode="collective"):
    """Groups the `Embedding` layers of a functional model into one `GroupEmbedding`.

    Layers that are called inside the scope become tables of one `GroupEmbedding`, which takes their
    place in the model: one native op and, over ranks, one set of exchanges for all of them. The
    group is called when the scope ends, or at the first use of one of its outputs. Layers called
    after such a use form another group, so use outputs after the scope. The scope replaces
    `group_embedding_column_scope` of DeepRec.

    Layers must be new, and may be called only in this scope, any number of times. A layer that is
    called with tensors, as in the `call` of a subclassed model, looks its ids up by itself: create
    a `GroupEmbedding` there.

    Args:
        name: String. Name of the `GroupEmbedding`. Defaults to `None`: a name that Keras makes.
        mode: `"collective"` or `"localized"`. `"collective"` shards the tables over ranks;
            `"localized"` replicates static tables on each rank and exchanges only gradients.
            Defaults to `"collective"`.

    Raises:
        ValueError: A layer already has its table, is called again outside the scope, or is of a
            subclass that computes something else.

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
    with entered(scope):
        try:
            yield
        except BaseException:
            scope.is_broken = True
            raise
    scope.look_up()


class _GroupScope:
    """Collects calls of layers to look up together: (layer, inputs, weights, output)."""

    def __init__(self, name, mode):
        self._name = name
        self._mode = mode
        self._calls = []
        self.is_broken = False

    def add(self, layer, inputs, weights=None, training=None, mask=None):
        """Returns the symbol of a layer's output, which is looked up later.

        Args:
            layer: `Embedding`.
            inputs, weights: `keras.KerasTensor` of what it takes; `None` for no weights.
            training, mask: What Keras lets any layer be called with. Rows do not depend on them.
        """
        _check_new(layer)
        spec = layer.compute_output_spec(inputs, weights)
        output = SymbolicOutput(self.look_up, spec, layer.compute_mask(inputs))
        self._calls.append((layer, inputs, weights, output))
        return output

    def look_up(self):
        """Creates a `GroupEmbedding` of the called layers, and calls it."""
        if self.is_broken:
            raise RuntimeError(
                "Layers of a `group_embedding_scope` that an error has ended must not be used, "
                "because they are never looked up. Create the layers again"
            )
        if not self._calls:
            return
        called, inputs, weights, deferred = zip(*self._calls, strict=True)
        self._calls = []
        layers = list(dict.fromkeys(called))
        places = [layers.index(layer) for layer in called]
        has_weights = any(each is not None for each in weights)
        self.is_broken = True  # unless all that follows works
        group = GroupEmbedding(layers, self._mode, input_table_map=places, name=self._name)
        for layer in layers:
            layer.group = group.name
        outputs = group(list(inputs), list(weights) if has_weights else None)
        for each, output in zip(deferred, outputs, strict=True):
            each.set(output)
        self.is_broken = False
        self._name = None  # of one layer


def _check_new(layer):
    if layer.group is not None or layer.built:
        where = f"in layer '{layer.group}'" if layer.group is not None else "of its own"
        raise ValueError(
            "A layer in a `group_embedding_scope` must be new and called in that scope alone, "
            "before an output of the scope is used, because its table joins a group. Received: "
            f"layer '{layer.name}', which has its table {where}"
        )
    own = own_computation(layer, Embedding)
    if own is not None:
        raise ValueError(
            "A layer in a `group_embedding_scope` must be a keras_sparse.layers.Embedding "
            "itself, or a subclass that computes nothing else, as a group looks up without "
            "calling the layer. Call the layer outside of the scope. Received: layer "
            f"'{layer.name}' of type {type(layer).__name__} with its own `{own}`"
        )


class SymbolicOutput(keras.KerasTensor):
    """The symbolic output of a layer that is called later: at its first use, at the latest.

    Keras asks a tensor where it comes from when something is called with it. What that raises must
    not come earlier, as from a mask, or Keras keeps the state of the call that failed.

    Args:
        call: Function that is called at first use, and calls `set`.
        spec: `keras.KerasTensor` of the same shape and dtype.
        mask: `keras.KerasTensor` of its mask, or `None`.
    """

    def __init__(self, call, spec, mask):
        super().__init__(spec.shape, spec.dtype, ragged=spec.ragged)
        self._keras_mask = mask
        self._call = call
        self._symbol = None

    def set(self, symbol):
        """Takes the place of a layer's output, in the graph of calls too."""
        self._symbol = symbol
        operation, node, place = symbol._keras_history
        operation._inbound_nodes[node].outputs[place] = self

    def _called(self):
        if self._symbol is None:
            self._call()
        return self._symbol

    @property
    def _keras_history(self):
        return self._called()._keras_history

    @_keras_history.setter
    def _keras_history(self, history):
        self._called()._keras_history = history  # Keras does so when it saves a model
