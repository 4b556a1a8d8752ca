import keras
import tensorflow as tf

from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.training.average_gradients import average_gradients


class DistributedGradientTape:
    """A `tf.GradientTape` whose gradients are averaged over ranks.

    Use it in training loops with an ordinary optimizer: each rank computes the gradients of its
    part of the batch, and all ranks receive those of the whole batch. Gradients of variables are
    averaged; gradients of source tensors are those of this rank. Other methods of the tape work as
    before: `jacobian` is that of this rank.

    The optimizer clips by norm without the parts of tables on other ranks; `DistributedOptimizer`
    includes them. Use either that optimizer or this tape: both together exchange all gradients
    twice for the same result.

    Args:
        tape: `tf.GradientTape`, inside or after its `with` statement.

    Raises:
        TypeError: `tape` is not a `tf.GradientTape`.

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
        """Returns the average gradients, in the structure of `sources`.

        Every rank must request the gradients of the same variables, and the same ones may be
        missing (`None`).

        Args:
            target: Target of `tf.GradientTape.gradient`: a tensor or a structure of tensors.
            sources: Variables or tensors, or a structure of them.
            *args: Further arguments of `tf.GradientTape.gradient`.
            **kwargs: Further arguments of `tf.GradientTape.gradient`.
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
