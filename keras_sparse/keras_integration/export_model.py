import functools

from keras_sparse.keras_integration.input_signature import composite_signature
from keras_sparse.keras_integration.input_signature import has_tables


def exporting_tables(export):
    """Returns `keras.Model.export` that makes nothing but SavedModels of models with tables.

    Other formats are converted from one without what its variables and hash tables are filled with.
    A SavedModel takes the ragged and sparse inputs that the model takes.
    """

    @functools.wraps(export)
    def exporting(
        model, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs
    ):
        if format != "tf_saved_model" and has_tables(model):
            raise NotImplementedError(
                '`format` must be "tf_saved_model" for a model with tables or an IntegerLookup of '
                "keras_sparse: the others have no hash table of 64-bit keys that is filled where "
                "they are loaded. `keras_sparse.serving.to_keras(model)` gives one of Keras' own "
                f"layers, which may have it. Received: format='{format}' for model '{model.name}'"
            )
        if input_signature is None:
            input_signature = composite_signature(model)
        return export(model, filepath, format, verbose, input_signature, **kwargs)

    return exporting
