import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class AdagradDecay(SparseOptimizer, keras.optimizers.Adagrad):
    """Adagrad whose accumulators decay from time to time, so that learning never dies out.

        # at every accumulator_decay_step-th step
        accumulator = max(accumulator * accumulator_decay_rate, initial_accumulator_value)
        # at every step with a gradient
        accumulator += g ** 2
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    Steps are those of `iterations`. Where that is set back, no accumulator decays before the steps
    at which it has decayed already have passed again.

    `g` is the sum of a row's gradients in the batch. It is DeepRec's `AdagradDecay`, with one
    difference: a row that was left alone over several decays makes up for all of them at its next
    gradient, as DeepRec's dense variables do, where DeepRec's embedding variables make up for one.
    Rows outside the batch stay as they are; `weight_decay` is taken from the rows of the batch
    alone. Other variables are left to `keras.optimizers.Adagrad`: their accumulators do not decay.

    Args:
        learning_rate: Float, schedule or callable. Defaults to 0.001.
        initial_accumulator_value: Float, above 0. Accumulators begin at it, and do not decay below
            it. Defaults to 0.1.
        accumulator_decay_step: Integer. Steps from one decay to the next. Defaults to 100000.
        accumulator_decay_rate: Float between 0 and 1. Defaults to 0.9.
        **kwargs: As for `keras.optimizers.Adagrad`.

    Example:
    >>> model.compile(keras_sparse.optimizers.AdagradDecay(0.05), loss="mse")
    """

    rule = "adagrad_decay"

    def __init__(
        self,
        learning_rate=0.001,
        initial_accumulator_value=0.1,
        accumulator_decay_step=100000,
        accumulator_decay_rate=0.9,
        **kwargs,
    ):
        super().__init__(learning_rate, initial_accumulator_value, **kwargs)
        checks.between(initial_accumulator_value, 0, float("inf"), "initial_accumulator_value")
        self.accumulator_decay_step = checks.positive(
            accumulator_decay_step, "accumulator_decay_step"
        )
        self.accumulator_decay_rate = checks.between(
            accumulator_decay_rate, 0, 1, "accumulator_decay_rate"
        )

    def rule_constants(self):
        return {
            "initial_accumulator": self.initial_accumulator_value,
            "epsilon": self.epsilon,
            "decay_rate": self.accumulator_decay_rate,
        }

    def rule_numbers(self, learning_rate, step):
        return (step // self.accumulator_decay_step,)

    def get_config(self):
        names = ("accumulator_decay_step", "accumulator_decay_rate")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
