import keras

from keras_sparse.callbacks.check_built import check_built
from keras_sparse.distribute.training.broadcast_variables import broadcast_variables
from keras_sparse.layers.integer_lookup import IntegerLookup
from keras_sparse.utils import checks


class BroadcastGlobalVariables(keras.callbacks.Callback):
    """Lets training begin with the same weights on all ranks.

    When training first begins, the variables of the model and of its optimizer get the values of
    one rank, as `keras_sparse.distribute.broadcast_variables` gives them, and the vocabulary of
    each `IntegerLookup` becomes that rank's. Ranks with the same seed,
    or that have loaded the same file, begin alike anyway. A callback that loads weights on one rank
    alone must come before this one.

    Args:
        root_rank: Integer. Whose values to take. Defaults to 0.

    Raises:
        ValueError: When training begins, if the model is not built: its weights would first be
            there within the first step, which ranks would make from different ones.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> callback = keras_sparse.callbacks.BroadcastGlobalVariables()
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=[callback])
    """

    def __init__(self, root_rank=0):
        super().__init__()
        self.root_rank = checks.not_negative(root_rank, "root_rank")
        self._is_done = False

    def on_train_begin(self, logs=None):
        if self._is_done:
            return
        purpose = "there are weights before the first step"
        check_built(self.model, "BroadcastGlobalVariables", purpose)
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            # What the first step would do. Tables get their slots here.
            optimizer.build(self.model.trainable_variables)
        slots = [] if optimizer is None else optimizer.variables
        broadcast_variables([*self.model.variables, *slots], self.root_rank)
        for layer in self.model._flatten_layers():
            if isinstance(layer, IntegerLookup):
                layer.broadcast_vocabulary(self.root_rank)
        self._is_done = True
