import keras
import tensorflow as tf

from keras_sparse.data.part_weights import PartWeights
from keras_sparse.distribute.runtime import size


def unweigh_metrics(model):
    """Lets a model's loss and metrics be those of samples, where `shard` weighs these for training.

    A part of `b` of the `B` samples of a batch has the share `n * b / B` in its weights, as the
    gradients of `n` ranks are averaged. Keras weighs the loss of a batch by its samples once more,
    and weighted metrics count what is weighed, so that sums over ranks would have `b` twice. So the
    loss and the metrics get the weights without the share, and the gradient of the loss is
    multiplied by it: gradients are what they were, and what is reported is as if samples had not
    been weighed.

    Args:
        model: `keras.Model`. It is changed, once.
    """
    if size() == 1 or isinstance(model.compute_loss, _Loss):
        return
    model.compute_loss = _Loss(model.compute_loss)
    model.compute_metrics = _Metrics(model.compute_metrics)
    # Keras makes these again, where there are any, and finds the two above.
    model.train_function = model.test_function = None


class _Loss:
    """A model's `compute_loss`, of weights without the share, with the gradient of those with."""

    def __init__(self, compute_loss):
        self._compute_loss = compute_loss

    def __call__(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        loss = self._compute_loss(x, y, y_pred, _without_share(sample_weight), **kwargs)
        if loss is None:  # as a `compute_loss` of the user's own may return
            return None
        if loss.shape == (0,):  # Keras does not reduce it, and its mean over batches would be NaN
            loss = tf.reduce_sum(loss)
        for each in keras.tree.flatten(sample_weight):
            if isinstance(each, PartWeights):  # all of them have the same share
                return _with_gradient_times(loss, each.share)
        return loss


class _Metrics:
    """A model's `compute_metrics`, of weights without the share."""

    def __init__(self, compute_metrics):
        self._compute_metrics = compute_metrics

    def __call__(self, x, y, y_pred, sample_weight=None):
        return self._compute_metrics(x, y, y_pred, _without_share(sample_weight))


def _without_share(sample_weight):
    return keras.tree.map_structure(
        lambda each: each.weights if isinstance(each, PartWeights) else each, sample_weight
    )


@tf.custom_gradient
def _with_gradient_times(loss, factor):
    def gradient(upstream):
        return upstream * tf.cast(factor, upstream.dtype), None

    return tf.identity(loss), gradient
