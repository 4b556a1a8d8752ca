import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adamax(SparseOptimizer, keras.optimizers.Adamax):
    """Trains embedding rows and dense variables by Adam with the infinity norm.

        momentum += (g - momentum) * (1 - beta_1)
        norm = max(beta_2 * norm, abs(g))
        row -= learning_rate / (1 - beta_1 ** step) * momentum / (norm + epsilon)

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adamax`, which also trains the dense variables. A row keeps moving in steps
    without a gradient; these missed steps are applied when the row is next used.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the norm. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adamax`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [Kingma and Ba, 2014](https://arxiv.org/abs/1412.6980), section 7.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adamax(0.001), loss="mse")
    """

    rule = "adamax"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}

    def rule_numbers(self, learning_rate, step):
        return (learning_rate / (1 - tf.pow(self.beta_1, tf.cast(step, tf.float32))),)
