import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Ftrl(SparseOptimizer, keras.optimizers.Ftrl):
    """FTRL-Proximal on the embedding rows of a batch.

        shrunk = g + 2 * l2_shrinkage_regularization_strength * row
        p = -learning_rate_power
        linear += shrunk - ((accumulator + g ** 2) ** p - accumulator ** p) / learning_rate * row
        accumulator += g ** 2
        l2 = l2_regularization_strength + beta / (2 * learning_rate)
        l1 = l1_regularization_strength
        row = (clip(linear, -l1, l1) - linear) / (accumulator ** p / learning_rate + 2 * l2)

    `g` is the sum of a row's gradients in the batch. A row in the batch gets what
    `keras.optimizers.Ftrl` would give it from the same state. **A row outside the batch stays as it
    is**, as with TensorFlow's own sparse FTRL, whereas Keras applies the last line to every row at
    every step: with the first step it sets all rows to zero that have not had a gradient, whatever
    their initializer; it follows a learning rate that changes; and it goes on shrinking by
    `l2_shrinkage_regularization_strength`. From rows that begin at zero, at a constant rate and
    without shrinkage, the results are equal. `weight_decay` is taken from the rows of the batch
    alone. Other variables are left to `keras.optimizers.Ftrl`, whose arguments it takes.

    There is no group term (`l21_regularization_strength` of other systems): all terms act on single
    elements. `keras_sparse.L2WeightEvict` lets whole rows go by their norm.

    A `learning_rate_power` other than -0.5 takes two powers an element instead of two square roots,
    and about five times as long.

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
