import keras

from keras_sparse.inputs.ragged_inputs import cast_rows
from keras_sparse.layers.data_parallel_inputs import ragged_forms
from keras_sparse.ops.output_mode import join

_REFUSED = ("row_slice_threshold", "data_parallel_threshold")


class ModelParallelInputs:
    """The inputs of a `DistributedEmbedding` whose ranks pass all samples of the inputs they have.

    As `DataParallelInputs`, of whose methods it has the same.

    Args:
        templates: `TableConfigs`.
        plan: `Plan`.
        rank: Integer.
    """

    def __init__(self, templates, plan, rank):
        tables = plan.tables_of(rank)
        self.inputs = [i for i, table in enumerate(templates.input_tables) if table in tables]
        self._num_ranks = plan.num_ranks
        self._layers = [templates.layer_of_input(i) for i in self.inputs]
        self._all_layers = [templates.layer_of_input(i) for i in range(templates.num_inputs)]

    def check(self, inputs):
        for each, layer in zip(inputs, self._layers, strict=True):
            _check_whole_batch(each, layer, self._num_ranks)

    def lookup(self, own_tables, inputs, weights, output_mode):
        forms = ragged_forms(self._layers, inputs, weights)
        vectors = own_tables.exchange_samples(self.inputs, forms)
        layers = zip(self._all_layers, vectors, strict=True)
        outputs = [cast_rows(each, layer.compute_dtype) for layer, each in layers]
        return outputs if output_mode == "list" else join(outputs, output_mode)

    def masks(self, inputs):
        return None

    def output_specs(self, inputs):
        batch_size = inputs[0].shape[0] if inputs else None
        part = None if batch_size is None else batch_size // self._num_ranks
        return [
            keras.KerasTensor((part, layer.output_dim), layer.compute_dtype)
            for layer in self._all_layers
        ]


def check_whole_batch_options(layer):
    """Raises ValueError unless the tables of a layer can be looked up for whole batches.

    Args:
        layer: `DistributedEmbedding`, whose options are set.
    """
    if layer.templates.is_single:
        raise ValueError(
            "`embeddings` must be a list or dict with dp_input=False, because a rank without a "
            "table passes no input. Received: one layer"
        )
    for name in _REFUSED:
        if getattr(layer, name) is not None:
            raise ValueError(
                f"`{name}` must be None with dp_input=False, because a rank passes the inputs of "
                f"the tables whose columns it holds. Received: {name}={getattr(layer, name)}"
            )
    if layer.strategy == "auto":
        raise ValueError(
            "`strategy` must be one of ('basic', 'memory_balanced', 'memory_optimized') with "
            "dp_input=False. Received: strategy='auto'"
        )
    for name, table in zip(layer.templates.names, layer.templates.layers, strict=True):
        if table.input_dim is None:
            raise ValueError(
                "A dynamic table is sharded by rows, for which every rank passes its own "
                f"samples. Leave out dp_input=False. Received: dynamic table '{name}'"
            )
        if table.supports_masking and table.combiner is None:
            raise ValueError(
                "`mask_zero` and `padding_id` need a combiner with dp_input=False, because a "
                f"rank has no ids of its own samples to mask. Received: table '{name}'"
            )


def _check_whole_batch(inputs, table, num_ranks):
    """Checks the ids of a whole batch for one input.

    Args:
        inputs: Tensor, RaggedTensor or SparseTensor, or their `keras.KerasTensor`.
        table: `Embedding`: the options of its table.
        num_ranks: Integer.

    A batch of unknown size is checked when it comes.

    Raises:
        ValueError: It does not give one vector a sample, or the batch cannot be divided.
    """
    num_axes = len(inputs.shape)
    if num_axes != (1 if table.combiner is None else 2):
        raise ValueError(
            "`inputs` must give one vector per sample with dp_input=False: ids of shape "
            "(batch_size,), or (batch_size, hotness) with a combiner. Received: inputs of shape "
            f"{tuple(inputs.shape)} with combiner={table.combiner!r}"
        )
    if (inputs.shape[0] or 0) % num_ranks:
        raise ValueError(
            f"The batch size must be divisible by the number of ranks, {num_ranks}, with "
            "dp_input=False. Drop the remainder, or pad the batch. Received: inputs of shape "
            f"{tuple(inputs.shape)}"
        )
