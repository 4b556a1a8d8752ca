import functools

import keras
import tensorflow as tf

from keras_sparse.keras_integration.input_signature import composite_signature
from keras_sparse.keras_integration.input_signature import has_composites
from keras_sparse.keras_integration.input_signature import has_tables
from keras_sparse.keras_integration.input_signature import spec_of
from keras_sparse.saved_model.saved_model_scope import traced_for_saved_model


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
        if not has_composites(input_signature):
            return export(model, filepath, format, verbose, input_signature, **kwargs)
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", _endpoint(model, input_signature))
        archive.write_out(filepath, verbose=verbose is None or verbose)
        return None

    return exporting


@traced_for_saved_model
def _endpoint(model, signature):
    """Returns a function of a model with a trace, as `add_endpoint` takes one of any inputs."""
    specs = keras.tree.map_structure(spec_of, signature)
    function = tf.function(model.__call__, input_signature=specs, autograph=False)
    function.get_concrete_function()
    return function
