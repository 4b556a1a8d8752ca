import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adadelta(SparseOptimizer, keras.optimizers.Adadelta):
    """Trains embedding rows and dense variables by Adadelta.

        accumulated_grad = rho * accumulated_grad + (1 - rho) * g ** 2
        delta = sqrt(accumulated_delta_var + epsilon) * g / sqrt(accumulated_grad + epsilon)
        accumulated_delta_var = rho * accumulated_delta_var + (1 - rho) * delta ** 2
        row -= learning_rate * delta

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adadelta`, which also trains the dense variables. The accumulators of all rows
    decay at every step; the missed decay of a row is applied when it is next used.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        rho: Float in [0, 1]. Decay rate of the accumulators. Defaults to 0.95.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adadelta`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [Zeiler, 2012](https://arxiv.org/abs/1212.5701).

    Example:
    >>> model.compile(keras_sparse.optimizers.Adadelta(1.0), loss="mse")
    """

    rule = "adadelta"

    def rule_constants(self):
        return {"rho": self.rho, "epsilon": self.epsilon}
