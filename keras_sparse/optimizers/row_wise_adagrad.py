import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class RowWiseAdagrad(SparseOptimizer, keras.optimizers.Adagrad):
    """Adagrad with one accumulator a row: one number beside each row instead of a second row.

        accumulator += mean(g ** 2)
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    `g` is the sum of a row's gradients in the batch, the mean is that over the row's elements, as
    in FBGEMM's row-wise Adagrad (which adds epsilon after the root). Rows outside the batch stay as
    they are; `weight_decay` is taken from the rows of the batch alone. Other variables are left to
    `keras.optimizers.Adagrad`, whose arguments it takes.

    Example:
    >>> model.compile(keras_sparse.optimizers.RowWiseAdagrad(0.05), loss="mse")
    """

    rule = "row_wise_adagrad"
    needs_whole_rows = True

    def rule_constants(self):
        return {"initial_accumulator": self.initial_accumulator_value, "epsilon": self.epsilon}
