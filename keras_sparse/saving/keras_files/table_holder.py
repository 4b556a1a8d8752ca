import keras

from keras_sparse.saving.keras_files.load_table import load_table
from keras_sparse.saving.keras_files.load_table import refuse_table
from keras_sparse.saving.keras_files.save_table import save_table


# Keras makes the paths in its files of the class's name: another one would not find older files.
class TableHolder(keras.layers.Layer):
    """The place of one table of a `DistributedEmbedding` in Keras' files.

    It is there before the table, so that a file with one is not read past it.

    Args:
        owner: String, name of the layer that holds this one.
        name: String, of the table: Keras notes it in files.

    Attributes:
        table: `Table`, or `None` until the owner, which tracks the variable, is built.
    """

    def __init__(self, owner, name):
        super().__init__(name=name)
        self._owner = owner
        self._hold(None)

    def _hold(self, table):
        # Past Keras' attribute tracking, which would count the variable twice.
        object.__setattr__(self, "table", table)

    def hold(self, table):
        """Gives the place its table."""
        self._hold(table)
        self.built = True

    def save_own_variables(self, store):
        if self.built:
            save_table(self.table, store)

    def load_own_variables(self, store):
        if self.built:
            load_table(self.table, store)
        else:
            refuse_table(self, self._owner, store)
