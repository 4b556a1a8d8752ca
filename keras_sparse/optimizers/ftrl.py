import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Ftrl(SparseOptimizer, keras.optimizers.Ftrl):
    """Trains the embedding rows of a batch and dense variables by FTRL-Proximal.

        shrunk = g + 2 * l2_shrinkage_regularization_strength * row
        p = -learning_rate_power
        linear += shrunk - ((accumulator + g ** 2) ** p - accumulator ** p) / learning_rate * row
        accumulator += g ** 2
        l2 = l2_regularization_strength + beta / (2 * learning_rate)
        l1 = l1_regularization_strength
        row = (clip(linear, -l1, l1) - linear) / (accumulator ** p / learning_rate + 2 * l2)

    `g` is the sum of a row's gradients in the batch. A row of the batch receives the update of
    `keras.optimizers.Ftrl` from the same state; Keras' optimizer also trains the dense variables.

    **Rows outside the batch stay unchanged**, as in TensorFlow's own sparse FTRL. Keras applies the
    last line to every row at every step. Its first step sets all rows without a gradient to zero,
    whatever their initializer. Later steps follow a changed learning rate and continue to shrink
    rows by `l2_shrinkage_regularization_strength`. The results are equal for rows that begin at
    zero, at a constant learning rate and without shrinkage. `weight_decay` shrinks only the rows of
    the batch.

    All terms act on single elements; a group term, the `l21_regularization_strength` of other
    systems, is not supported. `keras_sparse.L2WeightEvict` evicts whole rows by their norm.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        learning_rate_power: Float, at most 0. Any value but -0.5 computes two powers per element
            instead of two square roots, which takes about five times as long. Defaults to -0.5.
        initial_accumulator_value: Float, at least 0. Initial value of the accumulator. Defaults to
            0.1.
        l1_regularization_strength: Float. Strength of the L1 term. Defaults to 0.
        l2_regularization_strength: Float. Strength of the L2 term. Defaults to 0.
        l2_shrinkage_regularization_strength: Float. Strength of the L2 term on the row at the
            gradient. Defaults to 0.
        beta: Float. Beta of the FTRL paper; adds to the L2 term. Defaults to 0.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Ftrl`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [McMahan et al., 2013](https://research.google.com/pubs/archive/41159.pdf).

    Example:
    >>> model.compile(keras_sparse.optimizers.Ftrl(0.05), loss="mse")
    """

    rule = "ftrl"

    def rule_constants(self):
        return {
            "initial_accumulator": self.initial_accumulator_value,
            "learning_rate_power": self.learning_rate_power,
            "l1": self.l1_regularization_strength,
            "l2": self.l2_regularization_strength,
            "l2_shrinkage": self.l2_shrinkage_regularization_strength,
            "beta": self.beta,
        }
