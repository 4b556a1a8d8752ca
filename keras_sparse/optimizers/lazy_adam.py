import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class LazyAdam(SparseOptimizer, keras.optimizers.Adam):
    """Adam whose embedding rows and their moments change in the batches that use them alone.

        alpha = learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)
        momentum += (g - momentum) * (1 - beta_1)
        velocity += (g ** 2 - velocity) * (1 - beta_2)
        row -= momentum * alpha / (sqrt(velocity) + epsilon)

    `g` is the sum of a row's gradients in the batch and `step` counts every step, from 1. Rows
    outside the batch stay as they are, whereas `keras.optimizers.Adam` keeps moving them and decays
    their moments; a row of every batch ends up the same. Other variables are left to
    `keras.optimizers.Adam`, whose arguments it takes; `amsgrad` is refused on embedding variables.

    Example:
    >>> model.compile(keras_sparse.optimizers.LazyAdam(0.001), loss="mse")
    """

    rule = "lazy_adam"
    unsupported_options = (*SparseOptimizer.unsupported_options, "amsgrad")

    def slot_initial_values(self):
        return {"momentum": 0.0, "velocity": 0.0}

    def rule_numbers(self, learning_rate, step):
        # As in Keras: alpha from float32 betas, the differences from one from Python floats. With a
        # beta of 0.999 this shows in the fifth digit of a move.
        step = tf.cast(step, tf.float32)
        alpha = learning_rate * tf.sqrt(1 - tf.pow(self.beta_2, step))
        alpha /= 1 - tf.pow(self.beta_1, step)
        return (alpha, 1 - self.beta_1, 1 - self.beta_2, self.epsilon)
