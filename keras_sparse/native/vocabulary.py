"""The native ops of a vocabulary: keys with tokens 1, 2, ... in the order of their appearance."""

import tensorflow as tf

from keras_sparse.native import library


def create_vocabulary(max_tokens):
    """Makes an empty vocabulary. It lives as a table of `create_tables` does.

    Args:
        max_tokens: Integer, below 2**32 - 1. How many keys get a token.

    Returns:
        Handle: eager scalar tensor of dtype resource.
    """
    with tf.init_scope():
        return library.lib.keras_sparse_create_vocabulary(max_tokens=max_tokens)


def find_tokens(vocabulary, keys):
    """Reads the token of each key.

    Args:
        vocabulary: Handle of a vocabulary.
        keys: int64 tensor of any shape.

    Returns:
        int64 tensor of the same shape: 0 for a key without a token.
    """
    return library.lib.keras_sparse_find_tokens(handle=vocabulary, keys=keys)


def add_tokens(vocabulary, keys, counts=True):
    """Reads the token of each key, and gives new ones the next tokens while there are any.

    Args:
        vocabulary: Handle of a vocabulary.
        keys: int64 tensor of any shape. New keys get tokens in its order.
        counts: Boolean. Whether each key counts with its token. Defaults to `True`.

    Returns:
        As `find_tokens`.
    """
    return library.lib.keras_sparse_add_tokens(handle=vocabulary, keys=keys, counts=counts)


def export_vocabulary(vocabulary):
    """Reads all of a vocabulary.

    Args:
        vocabulary: Handle of a vocabulary.

    Returns:
        `(keys, counts)`: int64 tensors of shape `(n,)`, the keys of the tokens from 1 on, and
        `(n + 1,)`, how often each token was counted, from 0 on.
    """
    return library.lib.keras_sparse_export_vocabulary(handle=vocabulary)


def import_vocabulary(vocabulary, keys, counts):
    """Puts what `export_vocabulary` gave in the place of all that a vocabulary has.

    Args:
        vocabulary: Handle of a vocabulary.
        keys, counts: int64 tensors, as `export_vocabulary` returns them.

    Returns:
        `tf.Operation`, or `None` outside of a graph.

    Raises:
        tf.errors.InvalidArgumentError: There are too many keys, one twice, or counts below 0. The
            vocabulary is then as it was.
    """
    return library.lib.keras_sparse_import_vocabulary(handle=vocabulary, keys=keys, counts=counts)
