"""Archives of Keras whose functions a server runs: in ops of TensorFlow alone."""

import functools
from typing import Any

import keras

from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.keras_integration.input_signature import by_components
from keras_sparse.keras_integration.input_signature import has_composites
from keras_sparse.saved_model.saved_model_scope import in_saved_model_context
from keras_sparse.saved_model.saved_model_scope import traced_for_saved_model

# That of an archive on TensorFlow, which is a subclass since Keras 3.14.
ArchiveClass: Any = type(keras.export.ExportArchive())


def writing_plain_ops(write_out):
    """Returns `ExportArchive.write_out` of Keras that has its endpoints traced for a SavedModel.

    They are copies: the functions that `add_endpoint` gave go on with what they have traced. On
    several ranks, rank 0 alone prints what it has written.
    """

    @functools.wraps(write_out)
    def writing(archive, filepath, options=None, verbose=True):
        found = archive._tf_trackable
        endpoints = {name: getattr(found, name) for name in archive._endpoint_names}
        try:
            with in_saved_model_context(is_verbose=bool(verbose)):
                for name, function in endpoints.items():
                    setattr(found, name, _traced_anew(function))
                shown = verbose if rank() == 0 else False
                return write_out(_TracingArchive(archive), filepath, options, verbose=shown)
        finally:
            for name, function in endpoints.items():
                setattr(found, name, function)

    return writing


@traced_for_saved_model
def _traced_anew(function):
    """Returns a copy of a `tf.function` with all its traces made anew, in their order."""
    copy = function._clone(None)
    if function.input_signature is not None:
        copy.get_concrete_function()
        return copy
    for trace in function._list_all_concrete_functions():
        args, kwargs = trace.structured_input_signature
        copy.get_concrete_function(*args, **kwargs)
    return copy


class _TracingArchive(ArchiveClass):
    """An archive as another one, for `ExportArchive.write_out`, where Keras traces.

    Args:
        archive: `keras.export.ExportArchive`.
    """

    def __init__(self, archive):
        self.__dict__.update(vars(archive))

    @traced_for_saved_model
    def _get_concrete_fn(self, endpoint):
        """Gives a signature tensors alone; the endpoint keeps ragged and sparse arguments."""
        function = getattr(self._tf_trackable, endpoint)
        if has_composites(function.input_signature):
            return by_components(function, function.input_signature)
        return super()._get_concrete_fn(endpoint)

    @traced_for_saved_model
    def _filter_and_track_resources(self):
        super()._filter_and_track_resources()
