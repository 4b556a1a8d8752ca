import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Lion(SparseOptimizer, keras.optimizers.Lion):
    """Lion on embedding rows: moves by the sign of a momentum.

        row -= learning_rate * sign(beta_1 * momentum + (1 - beta_1) * g)
        momentum = beta_2 * momentum + (1 - beta_2) * g

    `g` is the sum of a row's gradients in the batch. The result is that of `keras.optimizers.Lion`,
    whose arguments it takes: once it had a gradient, a row moves by the full learning rate at every
    step, which is made up for when it is next used. With tables whose rows are rarely in a batch
    that is a long way; think twice. Other variables are left to it.

    Reference: [Chen et al., 2023](https://arxiv.org/abs/2302.06675).

    Example:
    >>> model.compile(keras_sparse.optimizers.Lion(0.0001), loss="mse")
    """

    rule = "lion"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2}
