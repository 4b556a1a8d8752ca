import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class RowWiseAdagrad(SparseOptimizer, keras.optimizers.Adagrad):
    """Trains by Adagrad with one accumulator per embedding row.

        accumulator += mean(g ** 2)
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    `g` is the sum of a row's gradients in the batch. The mean is taken over the elements of the
    row, as in FBGEMM's row-wise Adagrad, which adds epsilon after the root. The slot takes one
    number per row instead of a second row. Rows outside the batch stay unchanged, and
    `weight_decay` shrinks only the rows of the batch. `keras.optimizers.Adagrad` trains the dense
    variables. A table that is sharded by columns raises `NotImplementedError`.

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
    >>> model.compile(keras_sparse.optimizers.RowWiseAdagrad(0.05), loss="mse")
    """

    rule = "row_wise_adagrad"
    needs_whole_rows = True

    def rule_constants(self):
        return {"initial_accumulator": self.initial_accumulator_value, "epsilon": self.epsilon}
