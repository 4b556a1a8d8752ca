import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Nadam(SparseOptimizer, keras.optimizers.Nadam):
    """Trains embedding rows and dense variables by Adam with Nesterov momentum.

        u(t) = beta_1 * (1 - 0.96 ** t / 2)
        U(t) = u(1) * u(2) * ... * u(t)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        m = u(step + 1) * momentum / (1 - U(step + 1)) + (1 - u(step)) * g / (1 - U(step))
        row -= learning_rate * m / (sqrt(velocity / (1 - beta_2 ** step)) + epsilon)

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Nadam`, which also trains the dense variables. A row keeps moving in steps
    without a gradient; these missed steps are applied when the row is next used.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the velocity. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Nadam`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [Dozat, 2015](http://cs229.stanford.edu/proj2015/054_report.pdf).

    Example:
    >>> model.compile(keras_sparse.optimizers.Nadam(0.001), loss="mse")
    """

    rule = "nadam"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}

    def build(self, variables):
        super().build(variables)
        # Inside a LossScaleOptimizer, Keras tracks nothing by itself, and would not save it.
        if not any(variable is self._u_product for variable in self.variables):
            self._track_variable(self._u_product)

    def rule_numbers(self, learning_rate, step):
        step = tf.cast(step, tf.float32)
        u = self.beta_1 * (1 - 0.5 * tf.pow(0.96, step))
        next_u = self.beta_1 * (1 - 0.5 * tf.pow(0.96, step + 1))
        # Of the steps before: Keras multiplies this step's with the dense variables.
        product = tf.cast(self._u_product.value, tf.float32) * u
        return (
            learning_rate * next_u / (1 - product * next_u),
            learning_rate * (1 - u) / (1 - product),
            tf.sqrt(1 - tf.pow(self.beta_2, step)),
        )
