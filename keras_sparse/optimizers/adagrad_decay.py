import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class AdagradDecay(SparseOptimizer, keras.optimizers.Adagrad):
    """Trains by Adagrad with accumulators that decay at regular intervals.

        # at every accumulator_decay_step-th step
        accumulator = max(accumulator * accumulator_decay_rate, initial_accumulator_value)
        # at every step with a gradient
        accumulator += g ** 2
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    The decay keeps the effective learning rate from approaching zero. `g` is the sum of a row's
    gradients in the batch. Steps are counted by `iterations`. If `iterations` is set back,
    accumulators decay again only after the steps at which they have already decayed.

    The optimizer is DeepRec's `AdagradDecay` with one difference. A row that missed several decays
    applies all of them at its next gradient, as DeepRec's dense variables do; DeepRec's embedding
    variables apply one. Rows outside the batch stay unchanged, and `weight_decay` shrinks only the
    rows of the batch. `keras.optimizers.Adagrad` trains the dense variables, whose accumulators do
    not decay.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        initial_accumulator_value: Float above 0. Initial value of the accumulator, and the lower
            bound of its decay. Defaults to 0.1.
        accumulator_decay_step: Integer. Number of steps between two decays. Defaults to 100000.
        accumulator_decay_rate: Float between 0 and 1. Factor of a decay. Defaults to 0.9.
        **kwargs: `epsilon`, `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`,
            `loss_scale_factor`, `gradient_accumulation_steps` and `name` of
            `keras.optimizers.Adagrad`. `use_ema=True` raises `NotImplementedError` for embedding
            variables.

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
