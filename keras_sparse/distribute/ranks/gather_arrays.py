import numpy as np
import tensorflow as tf

from keras_sparse.distribute.ranks.collectives import alltoall
from keras_sparse.distribute.ranks.collectives import gather
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size


def gather_arrays(arrays, name, all_ranks=False):
    """Brings arrays of all ranks together, on rank 0 or on all.

    Args:
        arrays: List of arrays of numbers, below 2 GiB together. Ranks may have different ones.
        name: String, as in `collectives.gather`.
        all_ranks: Boolean. Whether every rank gets them. Defaults to `False`: rank 0 alone.

    Returns:
        List of a list a rank; `None` on ranks that get nothing.
    """
    if size() == 1:
        return [list(arrays)]
    kinds = gather_objects([(each.shape, each.dtype.str) for each in arrays], f"{name}.kinds")
    pieces = [np.zeros(0, np.uint8)]
    pieces += [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in arrays]
    own = tf.constant(np.concatenate(pieces))
    if all_ranks:
        received = gather(own, f"{name}.all").numpy()
    else:
        splits = tf.constant([own.shape[0], *[0] * (size() - 1)], tf.int32)
        received = alltoall(own, splits, f"{name}.root")[0].numpy()
        if rank() != 0:
            return None
    return _split(received, kinds)


def _split(received, kinds):
    of_ranks, begin = [], 0
    for of_rank in kinds:
        arrays = []
        for shape, dtype in of_rank:
            end = begin + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            arrays.append(received[begin:end].view(dtype).reshape(shape))
            begin = end
        of_ranks.append(arrays)
    return of_ranks
