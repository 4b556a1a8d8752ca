import keras

from keras_sparse.callbacks.check_built import check_built
from keras_sparse.distribute.training.broadcast_variables import broadcast_variables
from keras_sparse.layers.integer_lookup import IntegerLookup
from keras_sparse.utils import checks


class BroadcastGlobalVariables(keras.callbacks.Callback):
    """Copies the weights of one rank to all ranks when training begins.

    At the start of the first training, the variables of the model and of its optimizer receive the
    values of one rank, as with `keras_sparse.distribute.broadcast_variables`. Each `IntegerLookup`
    receives the vocabulary of that rank. Ranks with the same seed, or that have loaded the same
    file, start alike without this callback. Place callbacks that load weights on one rank alone
    before this one.

    Args:
        root_rank: Integer. The rank to copy from. Defaults to 0.

    Raises:
        ValueError: When training begins, if the model is not built. Its weights would be created
            within the first step, with different values on each rank.

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
            # As the first step would: tables receive their slots here.
            optimizer.build(self.model.trainable_variables)
        slots = [] if optimizer is None else optimizer.variables
        broadcast_variables([*self.model.variables, *slots], self.root_rank)
        for layer in self.model._flatten_layers():
            if isinstance(layer, IntegerLookup):
                layer.broadcast_vocabulary(self.root_rank)
        self._is_done = True
