import tensorflow as tf


def adam_alpha(learning_rate, beta_1, beta_2, step):
    """Returns Adam's learning rate with its bias correction, as Keras works it out.

        learning_rate * sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step)

    Keras takes the betas in float32 here and as Python floats elsewhere; with a beta of 0.999 this
    shows in the fifth digit of a move.

    Args:
        learning_rate: Scalar float32 tensor.
        beta_1, beta_2: Floats.
        step: Scalar tensor. The number of the step, from 1.

    Returns:
        Scalar float32 tensor.
    """
    step = tf.cast(step, tf.float32)
    return learning_rate * tf.sqrt(1 - tf.pow(beta_2, step)) / (1 - tf.pow(beta_1, step))
