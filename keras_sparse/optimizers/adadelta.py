import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adadelta(SparseOptimizer, keras.optimizers.Adadelta):
    """Adadelta on embedding rows.

        accumulated_grad = rho * accumulated_grad + (1 - rho) * g ** 2
        delta = sqrt(accumulated_delta_var + epsilon) * g / sqrt(accumulated_grad + epsilon)
        accumulated_delta_var = rho * accumulated_delta_var + (1 - rho) * delta ** 2
        row -= learning_rate * delta

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adadelta`, whose arguments it takes: the accumulators of all rows decay at
    every step, which is made up for when a row is next used. Other variables are left to it.

    Reference: [Zeiler, 2012](https://arxiv.org/abs/1212.5701).

    Example:
    >>> model.compile(keras_sparse.optimizers.Adadelta(1.0), loss="mse")
    """

    rule = "adadelta"

    def rule_constants(self):
        return {"rho": self.rho, "epsilon": self.epsilon}
