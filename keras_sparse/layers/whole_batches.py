"""What `dp_input=False` asks of a `DistributedEmbedding` and of its inputs."""

_REFUSED = ("row_slice_threshold", "data_parallel_threshold")


def check_whole_batch_options(layer):
    """Raises ValueError unless the tables of a layer can be looked up for whole batches.

    Args:
        layer: `DistributedEmbedding`, whose options are set.
    """
    for name in _REFUSED:
        if getattr(layer, name) is not None:
            raise ValueError(
                f"`{name}` must be None with dp_input=False, where a rank passes the inputs of the "
                f"tables that it has columns of. Received: {name}={getattr(layer, name)}"
            )
    if layer.strategy == "auto":
        raise ValueError(
            "`strategy` must be one of ('basic', 'memory_balanced', 'memory_optimized') with "
            "dp_input=False. Received: strategy='auto'"
        )
    for name, table in zip(layer.templates.names, layer.templates.layers, strict=True):
        if table.input_dim is None:
            raise ValueError(
                "A dynamic table is spread by rows, for which every rank passes its own samples: "
                f"leave out dp_input=False. Received: dynamic table '{name}'"
            )
        if table.mask_zero and table.combiner is None:
            raise ValueError(
                "`mask_zero` needs a combiner with dp_input=False, as a rank has no ids of its "
                f"samples to mask. Received: table '{name}'"
            )


def check_whole_batch(inputs, table, num_ranks):
    """Checks the ids of a whole batch for one input.

    Args:
        inputs: Tensor, RaggedTensor or SparseTensor, or their `keras.KerasTensor`.
        table: `Embedding`: the options of its table.
        num_ranks: Integer.

    A batch of unknown size is checked when it comes.

    Raises:
        ValueError: It does not give one vector a sample, or the batch cannot be divided.
    """
    rank = len(inputs.shape)
    if rank != (1 if table.combiner is None else 2):
        raise ValueError(
            "`inputs` must give one vector a sample with dp_input=False: ids of shape "
            "(batch_size,), or (batch_size, hotness) with a combiner. Received: inputs of shape "
            f"{tuple(inputs.shape)} with combiner={table.combiner!r}"
        )
    if (inputs.shape[0] or 0) % num_ranks:
        raise ValueError(
            f"The batch must be whole with dp_input=False, and {inputs.shape[0]} is not divisible "
            f"by {num_ranks}, the number of ranks. Drop what is left over, or pad it. Received: "
            f"inputs of shape {tuple(inputs.shape)}"
        )
