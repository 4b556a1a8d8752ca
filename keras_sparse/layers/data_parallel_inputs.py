import tensorflow as tf

from keras_sparse.inputs.ragged_inputs import cast_rows
from keras_sparse.inputs.ragged_inputs import ragged_form
from keras_sparse.inputs.ragged_inputs import row_dtype
from keras_sparse.ops.output_mode import join
from keras_sparse.ops.output_mode import joined_shape
from keras_sparse.ops.output_mode import split_inputs


class DataParallelInputs:
    """The inputs of a `DistributedEmbedding` whose ranks pass their own samples of every input.

    Args:
        templates: `TableConfigs`.

    Attributes:
        inputs: List of integers: the places of the inputs that this rank passes.
    """

    def __init__(self, templates):
        self.inputs = list(range(templates.num_inputs))
        self._templates = templates
        self._layers = [templates.layer_of_input(i) for i in self.inputs]

    def check(self, inputs):
        """Raises ValueError if a lookup cannot take these inputs."""
        del inputs  # any will do

    def lookup(self, own_tables, inputs, weights, output_mode):
        """Returns the outputs of the layer: a list with one an input, or all in one tensor.

        Args:
            own_tables: `LayerTables`.
            inputs, weights: Lists with an entry for each of `self.inputs`.
            output_mode: String, one of `OUTPUT_MODES`.
        """
        forms = ragged_forms(self._layers, inputs, weights)
        tables = self._templates.input_tables
        dtype = row_dtype([layer.compute_dtype for layer in self._layers], forms)
        if output_mode == "list":
            return self._outputs(own_tables.lookup(tables, forms, dtype), forms)
        shapes = [layer.compute_output_shape(each.shape) for layer, each in self._pairs(inputs)]
        if not (own_tables.can_join(tables, forms) and _are_alike(inputs, shapes)):
            rows = own_tables.lookup(tables, forms, dtype)
            return join(self._outputs(rows, forms), output_mode)
        joined_shape(shapes, output_mode)
        rows = own_tables.lookup_joined(tables, forms, dtype)
        rows = cast_rows(rows, self._layers[0].compute_dtype)
        return split_inputs(forms[0].outputs(rows), len(forms), output_mode)

    def _pairs(self, inputs):
        return zip(self._layers, inputs, strict=True)

    def _outputs(self, rows, forms):
        outputs = []
        for form, layer, each in zip(forms, self._layers, rows, strict=True):
            outputs.append(form.outputs(cast_rows(each, layer.compute_dtype)))
        return outputs

    def masks(self, inputs):
        """Returns the mask of each output, or `None` for an output without."""
        return [layer.compute_mask(each) for layer, each in self._pairs(inputs)]

    def output_specs(self, inputs):
        """Returns the `keras.KerasTensor` of each output."""
        return [layer.compute_output_spec(each) for layer, each in self._pairs(inputs)]


def _are_alike(inputs, shapes):
    """Returns whether the outputs of inputs are sure to be of one shape but for their width if they
    have as many rows.
    """
    if any(
        isinstance(each, tf.RaggedTensor) and len(shapes[i]) > 2 for i, each in enumerate(inputs)
    ):
        return False
    return all(None not in shape[1:] for shape in shapes)


def ragged_forms(layers, inputs, weights):
    """Returns the `RaggedForm` of each input.

    Args:
        layers: List of `Embedding`, one an input: the options of its table.
        inputs, weights: Lists of tensors, one an input; `None` for an input without weights.
    """
    return [
        ragged_form(ids, weight, layer.combiner, layer.input_dim, layer.mask_zero, layer.padding_id)
        for ids, weight, layer in zip(inputs, weights, layers, strict=True)
    ]
