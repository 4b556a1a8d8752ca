import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adagrad(SparseOptimizer, keras.optimizers.Adagrad):
    """Trains embedding rows and dense variables by Adagrad.

        accumulator += g ** 2
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adagrad` on the dense form of the gradient; Keras' optimizer also trains the
    dense variables. (On `tf.IndexedSlices`, Keras adds the squares of a repeated id's gradients to
    `accumulator` instead of the square of their sum.)

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        initial_accumulator_value: Float, at least 0. Initial value of the accumulator. Defaults to
            0.1.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Adagrad`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    """

    rule = "adagrad"

    def rule_constants(self):
        return {"initial_accumulator": self.initial_accumulator_value, "epsilon": self.epsilon}
