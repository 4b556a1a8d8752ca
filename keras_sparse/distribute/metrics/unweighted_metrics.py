import keras
import tensorflow as tf

from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.tables.regularized_parts import has_regularized_parts
from keras_sparse.distribute.training.shard import WeightedShards
from keras_sparse.tables.rows_regularizer import collected_losses_of_parts


def unweight_metrics(model):
    """Lets a model's loss and metrics be those of samples, where `shard` weighs these for training.

    A part of `b` of the `B` samples of a batch has the share `n * b / B` in its weights, as the
    gradients of `n` ranks are averaged. Keras weighs the loss of a batch by its samples once more,
    and weighted metrics count what is weighed, so that sums over ranks would have `b` twice. So the
    loss and the metrics get the weights without the share, and the gradient of the loss is
    multiplied by it: gradients are what they were, and what is reported is as if samples had not
    been weighed.

    The regularization of parts of tables is that of whole tables on all ranks, and its gradient is
    not multiplied, as it is not averaged either.

    Args:
        model: `keras.Model`. It is changed, once.
    """
    if size() == 1 or isinstance(model.compute_loss, _Loss):
        return
    layers = model._flatten_layers(include_self=False)
    model.compute_loss = _Loss(model.compute_loss, any(map(has_regularized_parts, layers)))
    model.compute_metrics = _Metrics(model.compute_metrics)
    # Keras makes these again, where there are any, and finds the two above.
    model.train_function = model.test_function = None


class _Loss:
    """A model's `compute_loss`, of weights without the share, with the gradient of those with."""

    def __init__(self, compute_loss, has_regularized_parts):
        self._compute_loss = compute_loss
        self._has_regularized_parts = has_regularized_parts

    def __call__(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        with collected_losses_of_parts() as of_parts:
            loss = self._compute_loss(x, y, y_pred, _without_share(sample_weight), **kwargs)
        if loss is None:  # as a `compute_loss` of the user's own may return
            return None
        if loss.shape == (0,):  # Keras does not reduce it, and its mean over batches would be NaN
            loss = tf.reduce_sum(loss)
        for each in keras.tree.flatten(sample_weight):
            if isinstance(each, WeightedShards):  # all of them have the same share
                loss = _with_gradient_times(loss, each.share)
                break
        if self._has_regularized_parts:
            loss += tf.cast(_of_all_parts(of_parts), loss.dtype)
        return loss


class _Metrics:
    """A model's `compute_metrics`, of weights without the share."""

    def __init__(self, compute_metrics):
        self._compute_metrics = compute_metrics

    def __call__(self, x, y, y_pred, sample_weight=None):
        return self._compute_metrics(x, y, y_pred, _without_share(sample_weight))


def _of_all_parts(losses):
    """The sum over all ranks, with the gradient of what is this rank's."""
    own = tf.add_n([tf.zeros(()), *losses])
    (whole,) = collectives.sum_of([own], collective_name("keras_sparse.regularized_parts"))
    return own + tf.stop_gradient(whole - own)


def _without_share(sample_weight):
    return keras.tree.map_structure(
        lambda each: each.weights if isinstance(each, WeightedShards) else each, sample_weight
    )


@tf.custom_gradient
def _with_gradient_times(loss, factor):
    def gradient(upstream):
        return upstream * tf.cast(factor, upstream.dtype), None

    return tf.identity(loss), gradient
