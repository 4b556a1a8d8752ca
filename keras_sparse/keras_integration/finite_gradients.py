import keras
import tensorflow as tf

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.step_count import optimizers_in

_check_finite = keras.optimizers.LossScaleOptimizer.check_finite


def check_finite(self, grads):
    """`LossScaleOptimizer.check_finite` for sparse gradients, and for those of many ranks.

    Keras' own asks the dense form of `tf.IndexedSlices`: a whole table's worth of memory at every
    step, and out of bounds for a dynamic table. Here the values alone are looked at. And it asks
    this rank alone: one rank would leave out a step that the others wait for it in.
    """
    optimizer = self.inner_optimizer
    # Of `DistributedOptimizer`, which is not named as its module imports this package.
    true_on_all_ranks = getattr(optimizer, "true_on_all_ranks", None)
    if any(isinstance(each, SparseOptimizer) for each in optimizers_in(optimizer)):
        grads = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
    is_finite = _check_finite(self, grads)
    return is_finite if true_on_all_ranks is None else true_on_all_ranks(is_finite)
