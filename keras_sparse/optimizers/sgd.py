import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class SGD(SparseOptimizer, keras.optimizers.SGD):
    """Gradient descent that updates embedding rows in place, and only the rows of the batch.

        row -= learning_rate * g

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.SGD`, whose arguments it takes; other variables are left to it.
    `momentum` is refused on embedding variables.

    Example:
    >>> model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    """

    rule = "sgd"
    unsupported_options = (*SparseOptimizer.unsupported_options, "momentum")

    def slot_initial_values(self):
        return {}

    def rule_numbers(self, learning_rate, step):
        return (learning_rate,)
