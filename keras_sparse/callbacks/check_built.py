from keras_sparse.distribute.ranks.runtime import error_prefix


def check_built(model, callback, purpose):
    """Raises ValueError unless a model has its variables.

    Args:
        model: `keras.Model`.
        callback: String. What it was given.
        purpose: String. What they are needed for.
    """
    if not model.built:
        raise ValueError(
            f"{error_prefix()}{callback} must be given to a built model, so that {purpose}. Call "
            "the model on a batch before `fit`, or add a `keras.Input` to a Sequential model. "
            f"Received: unbuilt model '{model.name}'"
        )
