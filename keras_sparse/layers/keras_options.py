# Options of `keras.layers.Embedding` that are not ours, and the values that change nothing.
_KERAS_OPTIONS = {
    "embeddings_constraint": (None,),
    "quantization_config": (None,),
    "lora_rank": (None, 0),
    "lora_alpha": (None,),
    "input_length": (None,),
    "weights": (None,),
}


def without_keras_options(options):
    """Returns `options` without those of `keras.layers.Embedding` alone, which must be off."""
    for name, defaults in _KERAS_OPTIONS.items():
        if options.get(name) not in defaults:
            raise ValueError(
                f"`{name}` is an option of keras.layers.Embedding that "
                "keras_sparse.layers.Embedding does not have. Leave it out, or use the Keras "
                f"layer. Received: {name}={options[name]!r}"
            )
    return {name: value for name, value in options.items() if name not in _KERAS_OPTIONS}
