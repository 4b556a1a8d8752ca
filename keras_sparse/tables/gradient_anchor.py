import tensorflow as tf

# Every way in which a `tf.Variable` is given a value.
_UPDATES = (
    "assign",
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
)


def make_gradient_anchor(table):
    """Makes the small `tf.Variable` that stands for an embedding variable in a gradient tape.

    It is never updated: a Keras optimizer that tries would train nothing, so that it is refused.
    """
    # Where its table is: an op must have its resources on its own device, and TensorFlow would
    # put a variable on a GPU.
    with tf.device(table.native.device):
        # A `tf.function` whose first trace creates a variable and then fails returns `None` from
        # then on. Keras ignores such a failure while it builds a model.
        anchor = tf.Variable(
            0.0, trainable=True, name=table.path, experimental_enable_variable_lifting=False
        )
    path = table.path

    def refuse(*args, **kwargs):
        refuse_optimizer(path)

    for update in _UPDATES:
        setattr(anchor, update, refuse)
    return anchor


def refuse_optimizer(path):
    """Raises the error for an optimizer that does not know embedding variables."""
    raise TypeError(
        "An embedding variable must be trained by an optimizer of `keras_sparse.optimizers`: they "
        "take the arguments of the Keras optimizer of that name and train the dense variables as "
        "it does (`keras_sparse.optimizers.from_keras` turns one into the other, or names those "
        "that can be turned). A clone of a compiled model gets its optimizer too: load the model "
        f"with `compile=False` and clone that. Received: a Keras optimizer for variable '{path}'"
    )
