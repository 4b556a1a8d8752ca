import keras
import tensorflow as tf

from keras_sparse.optimizers.lazy_adam import LazyAdam
from keras_sparse.optimizers.support.bias_correction import adam_alpha
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class AdamAsync(LazyAdam):
    """Trains by DeepRec's AdamAsync, with a step count for each table.

    It is `LazyAdam` with the table's own `step`:

        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        row -= alpha * momentum / (sqrt(velocity) + epsilon)

    or, with `apply_sparse_rmsprop`,

        velocity = beta_2 * velocity + (1 - beta_2) * g ** 2
        momentum = beta_1 * momentum + learning_rate * g / sqrt(velocity + epsilon)
        row -= momentum

    `g` is the sum of a row's gradients in the batch. `step` counts the steps in which the table had
    a gradient, from 1. (DeepRec's documentation describes `apply_sparse_rmsprop` without momentum;
    its code computes the lines above.) Rows outside the batch stay unchanged, and `weight_decay`
    shrinks only the rows of the batch. `keras.optimizers.Adam` trains the dense variables.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the velocity. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-8.
        apply_sparse_rmsprop: Boolean. Whether embedding rows are updated by RMSprop with momentum.
            Defaults to `False`.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adam`. Its `amsgrad=True`
            and `use_ema=True` raise `NotImplementedError` for embedding variables.

    Example:
    >>> model.compile(keras_sparse.optimizers.AdamAsync(0.001), loss="mse")
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-8,
        apply_sparse_rmsprop=False,
        **kwargs,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)
        self.apply_sparse_rmsprop = checks.boolean(apply_sparse_rmsprop, "apply_sparse_rmsprop")

    @property
    def rule(self):
        return "lazy_rmsprop" if self.apply_sparse_rmsprop else "lazy_adam"

    def rule_constants(self):
        if not self.apply_sparse_rmsprop:
            return super().rule_constants()
        return {
            "rho": self.beta_2,
            "momentum": self.beta_1,
            "epsilon": self.epsilon,
            "centered": False,
        }

    def build_for_tables(self, variables):
        self._table_steps = {
            id(variable): self.add_variable((), dtype="int64", name=f"{variable.name}_step")
            for variable in variables
        }

    def table_numbers(self, variables, learning_rate, step):
        if self.apply_sparse_rmsprop:
            return tf.fill((len(variables), 1), learning_rate)
        steps = [self._table_steps[id(variable)].value + 1 for variable in variables]
        alphas = [adam_alpha(learning_rate, self.beta_1, self.beta_2, step) for step in steps]
        return tf.stack([tf.stack([learning_rate, alpha]) for alpha in alphas])

    def finish_tables(self, variables):
        for variable in variables:
            self._table_steps[id(variable)].assign_add(1)

    def get_config(self):
        return {**super().get_config(), "apply_sparse_rmsprop": self.apply_sparse_rmsprop}
