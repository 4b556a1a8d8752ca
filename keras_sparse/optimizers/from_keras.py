import keras

from keras_sparse.optimizers.adadelta import Adadelta
from keras_sparse.optimizers.adagrad import Adagrad
from keras_sparse.optimizers.adam import Adam
from keras_sparse.optimizers.adamax import Adamax
from keras_sparse.optimizers.adamw import AdamW
from keras_sparse.optimizers.ftrl import Ftrl
from keras_sparse.optimizers.lion import Lion
from keras_sparse.optimizers.multi_optimizer import MultiOptimizer
from keras_sparse.optimizers.nadam import Nadam
from keras_sparse.optimizers.rmsprop import RMSprop
from keras_sparse.optimizers.sgd import SGD
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer

_COUNTERPARTS = {
    getattr(keras.optimizers, ours.__name__): ours
    for ours in (SGD, Adagrad, RMSprop, Adam, AdamW, Adamax, Nadam, Adadelta, Lion, Ftrl)
}
# Attributes that exclude_from_weight_decay sets, and no config has.
_WEIGHT_DECAY_SETTINGS = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")


def from_keras(optimizer):
    """Converts a Keras optimizer into its counterpart that also trains tables.

    Args:
        optimizer: `keras.optimizers.Optimizer`, its name, or its config as `keras.optimizers.get`
            takes it. An optimizer of `keras_sparse.optimizers` is returned unchanged. For a
            `LossScaleOptimizer`, the inner optimizer is converted; for a `MultiOptimizer`, all its
            optimizers are.

    Returns:
        Unbuilt optimizer of `keras_sparse.optimizers` with the same settings. Slots and the step
        count start anew.

    Raises:
        NotImplementedError: The optimizer has no counterpart. The message lists the supported
            optimizers.
        ValueError: `optimizer` is not an optimizer.

    Example:
    >>> from_keras("adam").__class__
    <class 'keras_sparse.optimizers.adam.Adam'>
    """
    optimizer = _instance(optimizer)
    if isinstance(optimizer, (SparseOptimizer, MultiOptimizer)):
        return optimizer
    if type(optimizer) is getattr(keras.optimizers, "MultiOptimizer", None):  # of Keras 3.15
        return _multi_optimizer(optimizer)
    if type(optimizer) is keras.optimizers.LossScaleOptimizer:
        config = optimizer.get_config()
        config["inner_optimizer"] = from_keras(optimizer.inner_optimizer)
        return keras.optimizers.LossScaleOptimizer(**config)
    counterpart = _COUNTERPARTS.get(type(optimizer))
    if counterpart is None:
        raise NotImplementedError(
            f"A Keras optimizer must be one of {_names()} to train embedding variables. Use one "
            "of these, or train the embedding variables with another optimizer "
            f"(`MultiOptimizer`). Received: {type(optimizer).__name__}"
        )
    ours = counterpart(**_settings(optimizer))
    for name in _WEIGHT_DECAY_SETTINGS:
        if hasattr(optimizer, name):
            setattr(ours, name, getattr(optimizer, name))
    return ours


def _multi_optimizer(optimizer):
    given = optimizer._optimizer_map
    if not isinstance(given, keras.optimizers.OptimizerMap):
        raise NotImplementedError(
            "A MultiOptimizer must have an `OptimizerMap` to be converted. Create the "
            "MultiOptimizer of `keras_sparse.optimizers` from a dict, whose keys may be "
            f"functions. Received: {given!r}"
        )
    ours = {key: from_keras(each) for key, each in given._optimizer_map.items()}
    ours["others"] = from_keras(given.default_optimizer)
    for each in ours.values():
        each.loss_scale_factor = None
    return MultiOptimizer(ours, optimizer.loss_scale_factor, optimizer.name)


def _names():
    return ", ".join(ours.__name__ for ours in _COUNTERPARTS.values())


def _instance(optimizer):
    cause = None
    try:
        instance = keras.optimizers.get(optimizer)
    except (TypeError, ValueError) as error:
        instance, cause = None, error
    if instance is None:
        raise ValueError(
            f"`optimizer` must be a Keras optimizer, its config, or its name: one of {_names()}. "
            "Create other optimizers of `keras_sparse.optimizers` by their class. Received: "
            f"optimizer={optimizer!r}"
        ) from cause
    return instance


def _settings(optimizer):
    """Returns the config with the learning-rate object, which may not be savable."""
    rate = optimizer._learning_rate
    if isinstance(rate, keras.Variable):
        return optimizer.get_config()
    copy = object.__new__(type(optimizer))
    vars(copy).update(vars(optimizer), _learning_rate=0.0)
    return {**copy.get_config(), "learning_rate": rate}
