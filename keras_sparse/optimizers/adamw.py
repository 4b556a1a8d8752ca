import keras

from keras_sparse.optimizers.adam import Adam


@keras.saving.register_keras_serializable(package="keras_sparse")
class AdamW(Adam, keras.optimizers.AdamW):
    """Adam with decoupled weight decay on embedding rows.

        row -= learning_rate * weight_decay * row
        row -= alpha * momentum / (sqrt(velocity) + epsilon)         # as Adam

    The result is that of `keras.optimizers.AdamW`, whose arguments it takes: all rows shrink at
    every step, and what a row has missed is made up for when it is next used. Tables can be left
    out with `exclude_from_weight_decay`. Other variables are left to `keras.optimizers.AdamW`.

    Reference: [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101).

    Example:
    >>> model.compile(keras_sparse.optimizers.AdamW(0.001, weight_decay=0.004), loss="mse")
    """
