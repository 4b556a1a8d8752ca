import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class SGD(SparseOptimizer, keras.optimizers.SGD):
    """Gradient descent on embedding rows, with or without momentum.

        row -= learning_rate * g

    With `momentum`, where `velocity` is kept beside each row:

        velocity = momentum * velocity - learning_rate * g
        row += velocity                                         # or, with nesterov,
        row += momentum * velocity - learning_rate * g

    `g` is the sum of a row's gradients in the batch. The result is that of `keras.optimizers.SGD`,
    whose arguments it takes: velocity keeps moving a row in the steps without a gradient, which are
    made up for when the row is next used. Other variables are left to it.

    Example:
    >>> model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    """

    @property
    def rule(self):
        return "momentum" if self.momentum else "sgd"

    def rule_constants(self):
        if not self.momentum:
            return {}
        return {"momentum": self.momentum, "nesterov": self.nesterov}
