import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adagrad(SparseOptimizer, keras.optimizers.Adagrad):
    """Adagrad on embedding rows.

        accumulator += g ** 2
        row -= learning_rate * g / sqrt(accumulator + epsilon)

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adagrad`, whose arguments it takes, on the dense form of the gradient; other
    variables are left to it. (On `tf.IndexedSlices` Keras adds the squares of a repeated id's
    gradients to `accumulator`, not the square of their sum.)

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    """

    rule = "adagrad"

    def rule_constants(self):
        return {"initial_accumulator": self.initial_accumulator_value, "epsilon": self.epsilon}
