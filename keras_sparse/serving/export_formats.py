import functools


def refusing_formats(export):
    """Returns `keras.Model.export` that makes nothing but SavedModels of models with tables.

    Others are converted from one without what its variables and hash tables are filled with.
    """

    @functools.wraps(export)
    def exporting(model, filepath, format="tf_saved_model", *args, **kwargs):
        if format != "tf_saved_model" and _has_tables(model):
            raise NotImplementedError(
                '`format` must be "tf_saved_model" for a model with tables or an IntegerLookup of '
                "keras_sparse: the others have no hash table of 64-bit keys that is filled where "
                "they are loaded. `keras_sparse.saving.to_keras(model)` gives one of Keras' own "
                f"layers, which may have it. Received: format='{format}' for model '{model.name}'"
            )
        return export(model, filepath, format, *args, **kwargs)

    return exporting


def _has_tables(model):
    # By what a SavedModel asks of them.
    return any(hasattr(type(each), "saved_table") for each in model.variables) or any(
        hasattr(type(each), "saved_index") for each in model._flatten_layers()
    )
