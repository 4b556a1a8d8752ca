import contextlib
import contextvars

import keras
import tensorflow as tf

from keras_sparse import native

# Sums over the elements of a table: those of its parts add up to that of the whole.
_SUMS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)


class RowsRegularizer:
    """The loss that a regularizer makes of all rows of a static table.

    Keras calls it with the variable, in each step of training and evaluation. It reads the whole
    table, and its gradient moves all rows.

    Args:
        regularizer: `keras.regularizers.Regularizer`, or another function of a float32 tensor of
            shape `(input_dim, output_dim)` that gives a scalar.
        num_ranks: Integer. The ranks that have parts of the variable's table. The loss is that of
            the part times this number, so that its mean over ranks is that of the whole table; its
            gradient is that of the part, as it is not averaged. Defaults to 1.
    """

    def __init__(self, regularizer, num_ranks=1):
        self.regularizer = regularizer
        self.num_ranks = num_ranks

    def __call__(self, variable):
        if variable.input_dim == 0:
            return tf.zeros(())
        ids = tf.range(variable.input_dim, dtype=tf.int64)
        ids = ids if variable.part is None else variable.part.global_ids(ids)
        (rows,) = native.lookup([variable], [ids])
        loss = self.regularizer(rows)
        if self.num_ranks == 1:
            return loss
        collected = _collected.get()
        if collected is not None:
            collected.append(loss)
            return tf.zeros(())
        return loss + tf.stop_gradient(loss * (self.num_ranks - 1))


# Keras calls a regularizer, and passes the variable alone.
_collected: contextvars.ContextVar[list | None] = contextvars.ContextVar("losses", default=None)


@contextlib.contextmanager
def collected_losses_of_parts():
    """Yields a list that gets the losses of parts of tables, in place of the model.

    Who collects them can add them up over ranks, and keep the gradients of what is averaged over
    ranks and of what is not apart.
    """
    losses: list = []
    token = _collected.set(losses)
    try:
        yield losses
    finally:
        _collected.reset(token)


def check_regularizer(regularizer, input_dim):
    """Returns the regularizer that an argument `embeddings_regularizer` names, or `None`.

    Args:
        regularizer: `keras.regularizers.Regularizer`, its name or config, a function, or `None`.
        input_dim: Integer, rows of a static table; `None` for a dynamic one.

    Raises:
        ValueError: The table is dynamic.
    """
    if regularizer is not None and input_dim is None:
        raise ValueError(
            "`embeddings_regularizer` must be left out of a dynamic table, which has no fixed rows "
            "to make a loss of. Give `input_dim`, take the `weight_decay` of an optimizer, or add "
            "a loss of the layer's outputs (`add_loss`). Received: input_dim=None, "
            f"embeddings_regularizer={regularizer!r}"
        )
    return keras.regularizers.get(regularizer)


def rows_regularizer(regularizer, num_ranks=1):
    """Returns the `RowsRegularizer` of a regularizer, or `None` for `None`."""
    return None if regularizer is None else RowsRegularizer(regularizer, num_ranks)


def is_sum(regularizer):
    """Returns whether a regularizer is a sum over elements, which parts of a table can share."""
    return type(regularizer) in _SUMS
