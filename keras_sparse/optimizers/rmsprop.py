import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class RMSprop(SparseOptimizer, keras.optimizers.RMSprop):
    """Trains embedding rows and dense variables by RMSprop.

        velocity = rho * velocity + (1 - rho) * g ** 2
        average_gradient = rho * average_gradient + (1 - rho) * g           # if centered
        increment = learning_rate * g / sqrt(velocity - average_gradient ** 2 + epsilon)
        momentum_ = momentum * momentum_ + increment                        # if momentum > 0
        row -= momentum_                                      # or, without it, increment

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.RMSprop`, which also trains the dense variables. In steps without a gradient,
    the averages of a row decay and momentum keeps moving the row; these missed steps are applied
    when the row is next used.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        rho: Float in [0, 1]. Decay rate of the averages. Defaults to 0.9.
        momentum: Float in [0, 1]. Decay rate of the momentum. Defaults to 0: no momentum.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        centered: Boolean. Whether to subtract the squared average gradient from the velocity.
            Defaults to `False`.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.RMSprop`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

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
