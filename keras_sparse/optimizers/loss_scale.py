import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer

_check_finite = keras.optimizers.LossScaleOptimizer.check_finite


def check_finite(self, grads):
    """`LossScaleOptimizer.check_finite` that looks at the values of sparse gradients alone.

    Keras' own asks the dense form of `tf.IndexedSlices`: a whole table's worth of memory at every
    step, and out of bounds for a dynamic table.
    """
    if isinstance(self.inner_optimizer, SparseOptimizer):
        grads = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
    return _check_finite(self, grads)


# `compile()` under mixed_float16 wraps the optimizer in Keras' class by itself, so that a class of
# our own would not be asked.
keras.optimizers.LossScaleOptimizer.check_finite = check_finite
