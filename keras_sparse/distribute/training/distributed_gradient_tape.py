import keras
import tensorflow as tf

from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.training.average_gradients import average_gradients


class DistributedGradientTape:
    """A `tf.GradientTape` whose gradients are averaged over ranks.

    It is for training loops whose optimizer is to be an ordinary one: each rank takes the gradients
    of its part of the batch, and all get those of the whole batch. Those of variables are averaged,
    sources that are tensors have the gradients of this rank. What else a tape can do it does as
    before: `jacobian` is that of this rank.

    Clipping by norm is the optimizer's, which does not see the parts of tables on other ranks:
    `DistributedOptimizer` does. Take that or this tape; both together exchange all gradients twice,
    for the same result.

    Args:
        tape: `tf.GradientTape`. In a `with` statement or after it.

    Example:
    ```python
    with keras_sparse.distribute.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = loss_fn(y, model(x))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(grads, model.trainable_variables)
    ```
    """

    def __init__(self, tape):
        if not isinstance(tape, tf.GradientTape):
            raise TypeError(
                f"`tape` must be a `tf.GradientTape`. Received: tape={tape!r}, of type "
                f"{type(tape).__name__}"
            )
        self.tape = tape

    def __enter__(self):
        self.tape.__enter__()
        return self

    def __exit__(self, *error):
        return self.tape.__exit__(*error)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "tape"), name)

    @tf.autograph.experimental.do_not_convert
    def gradient(self, target, sources, *args, **kwargs):
        """Returns the gradients, in the structure of `sources`, as `tf.GradientTape.gradient`.

        Every rank must ask for those of the same variables, and have or lack (`None`) the same.

        Args:
            target, sources, *args, **kwargs: As for `tf.GradientTape.gradient`.
        """
        grads = self.tape.gradient(target, sources, *args, **kwargs)
        if size() == 1:
            return grads
        flat_sources, flat_grads = tf.nest.flatten(sources), tf.nest.flatten(grads)
        places = [
            i
            for i, source in enumerate(flat_sources)
            if isinstance(source, (keras.Variable, tf.Variable))
        ]
        averages = average_gradients(
            [flat_grads[i] for i in places],
            [flat_sources[i] for i in places],
            collective_name("keras_sparse.tape"),
        )
        for i, average in zip(places, averages, strict=True):
            flat_grads[i] = average
        return tf.nest.pack_sequence_as(sources, flat_grads)
