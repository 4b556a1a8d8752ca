import keras

from keras_sparse.tables.embedding_variable import EmbeddingVariable


class LookupCalls:
    """The calls of a functional model's layers that look ids up, as a function of its inputs.

    To call it calls these layers, and what leads to their inputs, and nothing else of the model.

    Args:
        model: A built functional or sequential `keras.Model`.

    Raises:
        ValueError: The model is of another kind, not built, or looks nothing up.
    """

    def __init__(self, model):
        if not _is_functional(model):
            raise ValueError(
                "`select` must say which inputs feed which layers where the model is not a built "
                "functional or sequential one: `select=lambda x, y: {model.embedding: x['ids']}`. "
                f"Received: model '{model.name}' of type {type(model).__name__}"
            )
        self._calls = [
            (LookupCalls(layer) if _is_functional(layer) else layer, node)
            for layer, node in _nodes_of(model)
            if has_tables(layer)
        ]
        if not self._calls:
            raise ValueError(
                "`model` must have layers with tables of keras_sparse. Received: model "
                f"'{model.name}' without any"
            )
        inputs = [tensor for _, node in self._calls for tensor in node.input_tensors]
        self._stem = keras.Model(_input_structure(model), inputs)

    def __call__(self, inputs, **kwargs):
        """Calls the layers. What else a model is called with, as a mask, is not needed here."""
        tensors = self._stem(inputs)
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        tensors = iter(tensors)
        for layer, node in self._calls:
            values = {id(tensor): next(tensors) for tensor in node.input_tensors}
            args, options = node.arguments.fill_in(values)
            layer(*args, **options)


def has_tables(layer):
    """Returns whether a layer, or one in it, looks up in tables of keras_sparse."""
    variables = getattr(layer, "variables", ())
    return any(isinstance(variable, EmbeddingVariable) for variable in variables)


def _is_functional(model):
    return isinstance(model, keras.Model) and bool(getattr(model, "inputs", None))


def _input_structure(model):
    if isinstance(model, keras.Sequential):
        return model.inputs[0]
    return model.input


def _nodes_of(model):
    """Returns (layer, node) for each call of a layer that the outputs of a model come from.

    Those that a call depends on come before it.
    """
    nodes = {}

    def visit(tensor):
        layer, node_index, _ = tensor._keras_history
        node = layer._inbound_nodes[node_index]
        if node.is_input or id(node) in nodes:
            return
        for each in node.input_tensors:
            visit(each)
        nodes[id(node)] = (layer, node)

    for output in model.outputs:
        visit(output)
    return list(nodes.values())
