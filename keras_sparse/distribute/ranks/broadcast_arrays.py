import numpy as np
import tensorflow as tf

from keras_sparse.distribute.ranks.collectives import broadcast
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank


def broadcast_arrays(arrays, root_rank, name):
    """Returns the arrays of one rank, on all ranks, in one exchange.

    They travel as bytes, so that they may be of any dtype, also of one that Horovod does not know.

    Args:
        arrays: List of arrays of numbers, whose shapes and dtypes must be the same on all ranks.
        root_rank: Integer.
        name: String, as in `collectives.broadcast`.
    """
    if rank() == root_rank:
        own = np.concatenate([_bytes_of(array) for array in arrays])
    else:
        own = np.empty(sum(array.nbytes for array in arrays), np.uint8)
    received = broadcast(tf.constant(own), root_rank, name).numpy()
    ends = np.cumsum([array.nbytes for array in arrays])
    return [
        part.view(array.dtype).reshape(array.shape)
        for part, array in zip(np.split(received, ends[:-1]), arrays, strict=True)
    ]


def broadcast_pieces(pieces, root_rank, name):
    """Yields what a generator yields on one rank, on all ranks. Others need not know how much.

    Args:
        pieces: Iterator of tuples of arrays of numbers. Only that of the root is asked.
        root_rank: Integer.
        name: String, as in `collectives.broadcast`.
    """
    while True:
        piece = next(pieces, None) if rank() == root_rank else None
        kinds = None if piece is None else [(array.shape, array.dtype.str) for array in piece]
        kinds = broadcast_object(kinds, root_rank, f"{name}.kinds")
        if kinds is None:
            return
        if piece is None:
            piece = [np.empty(shape, dtype) for shape, dtype in kinds]
        yield broadcast_arrays(piece, root_rank, name)


def _bytes_of(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
