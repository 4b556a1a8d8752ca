import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.bias_correction import adam_alpha


@keras.saving.register_keras_serializable(package="keras_sparse")
class LazyAdam(SparseOptimizer, keras.optimizers.Adam):
    """Adam whose embedding rows and their moments change in the batches that use them alone.

        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        row -= alpha * momentum / (sqrt(velocity) + epsilon)

    `g` is the sum of a row's gradients in the batch and `step` counts every step, from 1. Rows
    outside the batch stay as they are, whereas `Adam` keeps moving them and decays their moments; a
    row of every batch ends up the same. `weight_decay` is taken from the rows of the batch alone.
    Other variables are left to `keras.optimizers.Adam`, whose arguments it takes; `amsgrad` is
    refused on embedding variables.

    Example:
    >>> model.compile(keras_sparse.optimizers.LazyAdam(0.001), loss="mse")
    """

    unsupported_options = (*SparseOptimizer.unsupported_options, "amsgrad")

    @property
    def rule(self):
        return "lazy_adam"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}

    def rule_numbers(self, learning_rate, step):
        return (adam_alpha(learning_rate, self.beta_1, self.beta_2, step),)
