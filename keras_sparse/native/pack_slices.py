from keras_sparse.native import library as _native


def pack_slices(ids, values, scale=1.0):
    """Packs the gradients of several tables in one tensor, which ranks can gather in one exchange.

    Args:
        ids: List of int64 tensors of shape `(num_ids,)`, one a table.
        values: List of float32 tensors of shape `(num_ids, output_dim)`.
        scale: Float. What the values are multiplied by. Defaults to 1.

    Returns:
        int32 tensor of one axis.
    """
    return _native.lib.keras_sparse_pack_slices(ids=ids, values=values, scale=scale)


def unpack_slices(words, widths, num_ranks):
    """Takes apart what `num_ranks` ranks have packed, one tensor behind the other.

    Args:
        words: int32 tensor of one axis.
        widths: List of integers: `output_dim` of each table.
        num_ranks: Integer.

    Returns:
        `(ids, values)`: a list of int64 tensors of shape `(num_ids,)` and a list of float32 tensors
        of shape `(num_ids, output_dim)`. What the ranks have of a table is in the order of ranks.

    Example:
    >>> packed = pack_slices([tf.constant([7], tf.int64)], [tf.ones((1, 3))], scale=0.5)
    >>> ids, values = unpack_slices(tf.concat([packed, packed], axis=0), [3], num_ranks=2)
    >>> ids[0].numpy()
    array([7, 7])
    """
    ids, values = _native.lib.keras_sparse_unpack_slices(
        words=words, N=len(widths), widths=widths, num_ranks=num_ranks
    )
    return list(ids), list(values)
