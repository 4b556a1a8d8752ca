import reprlib

import numpy as np

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
