import keras

from keras_sparse.tables.embedding_variable import EmbeddingVariable


class TableLayer(keras.layers.Layer):
    """What layers with tables have in common: how `model.summary()` counts a dynamic one.

    Its rows come with training. Before, it would look like a layer without weights.
    """

    def count_params(self):
        count = super().count_params()
        tables = (each for each in self.weights if isinstance(each, EmbeddingVariable))
        return _DynamicCount(count) if any(each.is_dynamic for each in tables) else count


class _DynamicCount(int):
    """A number of parameters that is what it is now."""

    def __format__(self, spec):
        number = format(int(self), spec)
        return f"{number} (dynamic)" if spec == "," else number  # as `summary()` formats it
