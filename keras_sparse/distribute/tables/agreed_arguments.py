"""Arguments that all ranks must give alike."""

import zlib

from keras_sparse.distribute.ranks.check_agreement import check_agreement
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.tables.keyed_arrays import as_keys


def agreed_keys(method, keys):
    """Returns the keys of a method as an int64 array, once all ranks have given the same."""
    with errors_on_all_ranks(f"agreed_keys.{method}"):
        keys = as_keys(keys)
    agree(method, "keys", keys)
    return keys


def agree(method, name, array):
    """Raises RuntimeError on all ranks unless they have given a method the same array."""
    if size() == 1:
        return
    described = f"{len(array)} with checksum {zlib.crc32(array.tobytes()):08x}"
    rule = f"`{method}` must be called on all ranks with the same `{name}`"
    check_agreement([(described, "")], rule, name)
