import keras

from keras_sparse import saving


class TableHolder(keras.layers.Layer):
    """The place of one table of a `DistributedEmbedding` in Keras' files.

    Args:
        table: `EmbeddingVariable` or `keras_sparse.distribute.spread_table.SpreadTable`. The layer
            that holds this one tracks the variable.
    """

    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        # Past Keras' attribute tracking, which would count the variable twice.
        object.__setattr__(self, "table", table)
        self.built = True

    def save_own_variables(self, store):
        saving.save_table(self.table, store)

    def load_own_variables(self, store):
        saving.load_table(self.table, store)
