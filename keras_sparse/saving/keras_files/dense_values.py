import contextlib

import keras

from keras_sparse.saving.keras_files.table_holder import TableHolder
from keras_sparse.tables.embedding_variable import EmbeddingVariable


class DenseValues:
    """What a model and its optimizer have beside tables, as it is now.

    Args:
        model: `keras.Model`.
    """

    def __init__(self, model):
        optimizer = getattr(model, "optimizer", None)
        variables = [*model.variables, *(() if optimizer is None else optimizer.variables)]
        self._variables = [
            (each, each.numpy()) for each in variables if not isinstance(each, EmbeddingVariable)
        ]
        self._states = []
        for layer in model._flatten_layers(include_self=False):
            if _keeps_more_than_variables(layer):
                # One that cannot be saved now can be loaded all the same.
                with contextlib.suppress(Exception):
                    state: dict = {}
                    layer.save_own_variables(state)
                    self._states.append((layer, state))

    def restore(self):
        """Gives the variables their values back, and layers what they made of them."""
        for variable, value in self._variables:
            variable.assign(value)
        for layer, state in self._states:
            layer.load_own_variables(state)


def _keeps_more_than_variables(layer):
    """Whether a layer without tables may do so with what it loads, as `Normalization` does."""
    loads_by_itself = type(layer).load_own_variables is not keras.layers.Layer.load_own_variables
    has_tables = isinstance(layer, TableHolder) or any(
        isinstance(variable, EmbeddingVariable) for variable in layer.variables
    )
    return loads_by_itself and layer.built and not has_tables
