import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class RMSprop(SparseOptimizer, keras.optimizers.RMSprop):
    """RMSprop on embedding rows.

        velocity = rho * velocity + (1 - rho) * g ** 2
        average_gradient = rho * average_gradient + (1 - rho) * g           # if centered
        increment = learning_rate * g / sqrt(velocity - average_gradient ** 2 + epsilon)
        momentum_ = momentum * momentum_ + increment                        # if momentum > 0
        row -= momentum_                                      # or, without it, increment

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.RMSprop`, whose arguments it takes: in the steps without a gradient averages
    decay and momentum keeps moving a row, which is made up for when the row is next used. Other
    variables are left to it.

    Example:
    >>> model.compile(keras_sparse.optimizers.RMSprop(0.001), loss="mse")
    """

    rule = "rmsprop"

    def rule_constants(self):
        return {
            "rho": self.rho,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "centered": self.centered,
        }
