import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.bias_correction import adam_alpha


@keras.saving.register_keras_serializable(package="keras_sparse")
class LazyAdam(SparseOptimizer, keras.optimizers.Adam):
    """Trains by Adam, where a step moves only the embedding rows of its batch.

        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        row -= alpha * momentum / (sqrt(velocity) + epsilon)

    `g` is the sum of a row's gradients in the batch. `step` counts every step of the optimizer,
    from 1. Rows outside the batch and their moments stay unchanged, whereas `Adam` keeps moving
    them. A row that is in every batch ends up the same. `weight_decay` shrinks only the rows of the
    batch. `keras.optimizers.Adam` trains the dense variables.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the velocity. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adam`. Its `amsgrad=True`
            and `use_ema=True` raise `NotImplementedError` for embedding variables.

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
