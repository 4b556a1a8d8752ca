import keras

from keras_sparse.optimizers.adam import Adam


@keras.saving.register_keras_serializable(package="keras_sparse")
class AdamW(Adam, keras.optimizers.AdamW):
    """Trains embedding rows and dense variables by Adam with decoupled weight decay.

        row -= learning_rate * weight_decay * row
        row -= alpha * momentum / (sqrt(velocity) + epsilon)         # as Adam

    The result is that of `keras.optimizers.AdamW`, which also trains the dense variables: all rows
    shrink at every step, and the missed steps of a row are applied when it is next used. Call
    `exclude_from_weight_decay` to exclude tables.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        weight_decay: Float. Fraction of a row, times the learning rate, that each step subtracts.
            Defaults to 0.004.
        beta_1: Float in [0, 1). Decay rate of the momentum. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the velocity. Defaults to 0.999.
        epsilon: Float. Added to the denominator for numerical stability. Defaults to 1e-7.
        amsgrad: Boolean. Whether to apply the AMSGrad variant. Defaults to `False`.
        **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.AdamW`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101).

    Example:
    >>> model.compile(keras_sparse.optimizers.AdamW(0.001, weight_decay=0.004), loss="mse")
    """
