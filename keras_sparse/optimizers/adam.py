import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.bias_correction import adam_alpha


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adam(SparseOptimizer, keras.optimizers.Adam):
    """Trains embedding rows and dense variables by Adam.

        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        velocity_hat = max(velocity_hat, velocity)            # if amsgrad
        row -= alpha * momentum / (sqrt(velocity) + epsilon)  # velocity_hat, if amsgrad

    `g` is the sum of a row's gradients in the batch. The result is that of `keras.optimizers.Adam`,
    which also trains the dense variables: a row without a gradient keeps moving while its moments
    decay. `keras.optimizers.Adam` rewrites the whole table at every step for this. Here the missed
    steps of a row are applied in closed form when it is next used, so a step costs only the rows of
    its batch. `LazyAdam` skips these moves.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the velocity. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        amsgrad: Boolean. Whether to apply the AMSGrad variant. Defaults to `False`.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adam`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

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
