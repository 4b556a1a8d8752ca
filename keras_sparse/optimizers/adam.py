import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.bias_correction import adam_alpha


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adam(SparseOptimizer, keras.optimizers.Adam):
    """Adam on embedding rows, with the result of `keras.optimizers.Adam`.

        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        velocity_hat = max(velocity_hat, velocity)            # if amsgrad
        row -= alpha * momentum / (sqrt(velocity) + epsilon)  # velocity_hat, if amsgrad

    `g` is the sum of a row's gradients in the batch; all rows have one in every step, most of them
    zero. A row without a gradient therefore keeps moving while its moments decay. To that end
    `keras.optimizers.Adam` rewrites the whole table at every step; here a row makes up for the
    steps it has missed when it is next used, in closed form, so that a step costs what the rows of
    the batch cost. `LazyAdam` leaves those moves out.

    Takes the arguments of `keras.optimizers.Adam`, which other variables are left to.

    Reference: [Kingma and Ba, 2014](https://arxiv.org/abs/1412.6980),
    [Reddi et al., 2018](https://arxiv.org/abs/1904.09237) for `amsgrad`.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adam(0.001), loss="mse")
    """

    @property
    def rule(self):
        return "amsgrad" if self.amsgrad else "adam"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}

    def rule_numbers(self, learning_rate, step):
        return (adam_alpha(learning_rate, self.beta_1, self.beta_2, step),)
