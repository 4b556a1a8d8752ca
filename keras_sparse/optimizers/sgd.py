import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class SGD(SparseOptimizer, keras.optimizers.SGD):
    """Trains embedding rows and dense variables by SGD, with optional momentum.

        row -= learning_rate * g

    With `momentum`, a velocity is kept beside each row:

        velocity = momentum * velocity - learning_rate * g
        row += velocity                                         # or, with nesterov,
        row += momentum * velocity - learning_rate * g

    `g` is the sum of a row's gradients in the batch. The result is that of `keras.optimizers.SGD`,
    which also trains the dense variables. Velocity keeps moving a row in steps without a gradient;
    these missed steps are applied when the row is next used.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.01.
        momentum: Float in [0, 1]. Decay rate of the velocity. Defaults to 0: no velocity.
        nesterov: Boolean. Whether to apply Nesterov momentum. Defaults to `False`.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.SGD`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

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
