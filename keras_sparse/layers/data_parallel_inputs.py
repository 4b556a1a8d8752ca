import tensorflow as tf

from keras_sparse.ragged_form import ragged_form


class DataParallelInputs:
    """The inputs of a `DistributedEmbedding` whose ranks pass their own samples of every input.

    Args:
        templates: `TableTemplates`.

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

    def lookup(self, own_tables, inputs, weights):
        """Returns the outputs of the layer, one an input of it.

        Args:
            own_tables: `LocalTables`.
            inputs, weights: Lists with an entry for each of `self.inputs`.
        """
        forms = ragged_forms(self._layers, inputs, weights)
        rows = own_tables.lookup(self._templates.input_tables, forms)
        outputs = []
        for form, layer, each in zip(forms, self._layers, rows, strict=True):
            outputs.append(form.outputs(tf.cast(each, layer.compute_dtype)))
        return outputs

    def masks(self, inputs):
        """Returns the mask of each output, or `None` for an output without."""
        layers = zip(self._layers, inputs, strict=True)
        return [layer.compute_mask(each) for layer, each in layers]

    def output_specs(self, inputs):
        """Returns the `keras.KerasTensor` of each output."""
        layers = zip(self._layers, inputs, strict=True)
        return [layer.compute_output_spec(each) for layer, each in layers]


def ragged_forms(layers, inputs, weights):
    """Returns the `RaggedForm` of each input.

    Args:
        layers: List of `Embedding`, one an input: the options of its table.
        inputs, weights: Lists of tensors, one an input; `None` for an input without weights.
    """
    return [
        ragged_form(ids, weight, layer.combiner, layer.input_dim, layer.mask_zero)
        for ids, weight, layer in zip(inputs, weights, layers, strict=True)
    ]
