import inspect
import reprlib

import numpy as np

# What a subclass may give a layer without changing what it computes.
_DESCRIPTIONS = ("get_config", "from_config", "from_keras")
_BY_KEYS = ("contains", "find", "assign", "erase", "compact", "export")

# What Keras puts into each layer, around the methods of its class.
_WRAPPED_BY_KERAS = ("build", "quantize")

# What layers of Keras have beside the arguments of ours.
_KERAS_ATTRIBUTES = (
    "embeddings_constraint",
    "quantization_config",
    "lora_rank",
    "lora_alpha",
    "activity_regularizer",
    "name",
    "trainable",
)


def own_computation(layer, known):
    """Returns the name of what a layer does in its own way, where another class is known.

    Who looks up for a layer without calling it would leave that out.

    Args:
        layer: Instance of `known`.
        known: Class of layers.

    Returns:
        String, such as `"call"`; `None` if the layer only has another constructor or config, or
        methods that `known` knows nothing of.
    """
    for each in (layer, *type(layer).__mro__[: type(layer).__mro__.index(known)]):
        for name, value in vars(each).items():
            is_plain = not name.startswith("__") or name == "__call__"
            is_own = is_plain and hasattr(known, name) and name not in (*_DESCRIPTIONS, *_BY_KEYS)
            if is_own and not (each is layer and _is_as_in_class(layer, name, value)):
                return name
    return None


def _is_as_in_class(layer, name, value):
    """Returns whether a layer has its class's method, which Keras wraps, under a name."""
    method = getattr(inspect.unwrap(value), "__func__", None)
    return name in _WRAPPED_BY_KERAS and method is getattr(type(layer), name)


def options_of(layer, known):
    """Returns what makes a layer with the options of this one, as a dict of arguments.

    They are the layer's own objects: a function that no file could name serves as well.

    Args:
        layer: Embedding layer of Keras or of ours.
        known: Class of layers: whose arguments.
    """
    names = [*inspect.signature(known.__init__).parameters, *_KERAS_ATTRIBUTES]
    options = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    return {**options, "dtype": layer.dtype_policy}


def not_built_message(layer, what):
    """Returns the words of an error: a layer has no tables yet.

    Args:
        layer: Embedding layer that is not built.
        what: String, the begin of the rule, such as "`stats` must be called on".
    """
    group = getattr(layer, "group", None) or getattr(layer, "template_of", None)
    if group is not None:
        return (
            f"{what} the layer that has the table. Take that one, `model.get_layer('{group}')`. "
            f"Received: layer '{layer.name}', whose table is one of layer '{group}'"
        )
    return (
        f"{what} a built layer. Call the layer or `layer.build()` first. Received: unbuilt layer "
        f"'{layer.name}'"
    )


# Options of `keras.layers.Embedding` that are not ours, and the values that change nothing.
_KERAS_OPTIONS = {
    "embeddings_constraint": (None,),
    "quantization_config": (None,),
    "lora_rank": (None, 0),
    "lora_alpha": (None,),
    "input_length": (None,),
    "weights": (None,),
}


def without_unsupported_arguments(options):
    """Returns `options` without those of `keras.layers.Embedding` alone, which must be off."""
    for name, defaults in _KERAS_OPTIONS.items():
        value = options.get(name)
        if isinstance(value, (list, np.ndarray)) or value not in defaults:
            remedy = (
                "Begin with a matrix by `embeddings_initializer=keras.initializers.Constant(matrix)"
                "`, of a static table"
                if name == "weights"
                else "Leave it out, or use the Keras layer"
            )
            raise ValueError(
                f"`{name}` is an option of keras.layers.Embedding that "
                f"keras_sparse.layers.Embedding does not have. {remedy}. Received: {name}="
                f"{reprlib.repr(value)}"
            )
    return {name: value for name, value in options.items() if name not in _KERAS_OPTIONS}
