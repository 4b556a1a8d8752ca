import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


@keras.saving.register_keras_serializable(package="keras_sparse")
class Lion(SparseOptimizer, keras.optimizers.Lion):
    """Trains embedding rows and dense variables by Lion, with the sign of a momentum.

        row -= learning_rate * sign(beta_1 * momentum + (1 - beta_1) * g)
        momentum = beta_2 * momentum + (1 - beta_2) * g

    `g` is the sum of a row's gradients in the batch. The result is that of `keras.optimizers.Lion`,
    which also trains the dense variables. After its first gradient, a row moves by the full
    learning rate at every step; missed steps are applied when the row is next used. Rows that are
    rarely in a batch therefore move a long way: check that your table suits Lion.

    Args:
        learning_rate: Float, `keras.optimizers.schedules.LearningRateSchedule`, or callable that
            returns the rate. Defaults to 0.001.
        beta_1: Float in [0, 1). Share of the momentum in the update. Defaults to 0.9.
        beta_2: Float in [1e-6, 1). Decay rate of the momentum. Defaults to 0.99.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name` of `keras.optimizers.Lion`. `use_ema=True`
            raises `NotImplementedError` for embedding variables.

    Reference: [Chen et al., 2023](https://arxiv.org/abs/2302.06675).

    Example:
    >>> model.compile(keras_sparse.optimizers.Lion(0.0001), loss="mse")
    """

    rule = "lion"

    def rule_constants(self):
        return {"beta_1": self.beta_1, "beta_2": self.beta_2}
