import keras

from keras_sparse.ops.output_mode import check_same_kind
from keras_sparse.ops.output_mode import joined_mask
from keras_sparse.ops.output_mode import joined_shape


class OutputForm:
    """How a layer of many inputs gives its outputs: as inputs are given, or all in one tensor.

    Args:
        templates: `TableConfigs`.
        mode: String, one of `OUTPUT_MODES`, which `templates.check_output_mode` has taken.
    """

    def __init__(self, templates, mode):
        self._mode = mode
        self._templates = templates

    def of(self, outputs):
        """Returns outputs as the layer gives them: a list with one an input, or already joined."""
        return self._templates.as_given(outputs) if self._mode == "list" else outputs

    def mask(self, masks):
        """Returns the mask of the outputs; `masks` is a list of that of each input, or `None`."""
        if masks is None:
            return None
        if self._mode == "list":
            return self._templates.as_given(masks)
        return joined_mask(masks, self._mode)

    def spec(self, specs):
        """Returns the `keras.KerasTensor` of the outputs, of a list of those of each input."""
        if self._mode == "list":
            return self._templates.as_given(specs)
        shape = joined_shape([spec.shape for spec in specs], self._mode)
        are_ragged = [bool(getattr(spec, "ragged", False)) for spec in specs]
        check_same_kind(are_ragged)
        return keras.KerasTensor(tuple(shape), specs[0].dtype, ragged=are_ragged[0])


def ids_of_shapes(shapes):
    """Returns `keras.KerasTensor`s of ids of these shapes.

    Args:
        shapes: Tuple of integers and `None`, or a list, tuple or dict of such.
    """
    if isinstance(shapes, dict):
        return {name: ids_of_shapes(shape) for name, shape in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return keras.KerasTensor(tuple(shapes), "int64")
    return [ids_of_shapes(shape) for shape in shapes]
