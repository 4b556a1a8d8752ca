import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Adamax(SparseOptimizer, keras.optimizers.Adamax):
    """Adamax on embedding rows: Adam with the infinity norm.

        momentum += (g - momentum) * (1 - beta_1)
        norm = max(beta_2 * norm, abs(g))
        row -= learning_rate / (1 - beta_1 ** step) * momentum / (norm + epsilon)

    `g` is the sum of a row's gradients in the batch. The result is that of
    `keras.optimizers.Adamax`, whose arguments it takes: a row keeps moving in the steps without a
    gradient, which are made up for when it is next used. Other variables are left to it.

    Reference: [Kingma and Ba, 2014](https://arxiv.org/abs/1412.6980), section 7.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adamax(0.001), loss="mse")
    """

    rule = "adamax"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}

    def rule_numbers(self, learning_rate, step):
        return (learning_rate / (1 - tf.pow(self.beta_1, tf.cast(step, tf.float32))),)
