import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import ops
from keras_sparse.distribute.ranks.runtime import error_prefix

PREFIX = "" if ksd.size() == 1 else f"[rank {ksd.rank()} of {ksd.size()}] "


def test_one_rank_has_none():
    assert error_prefix() == PREFIX


def test_native_errors_begin_with_the_rank():
    table = keras_sparse.EmbeddingVariable(4, 2)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        ops.lookup([table], [tf.constant([1, 9], tf.int64)])
    assert f"{PREFIX}id must be in" in error.value.message
    assert ("[rank " in error.value.message) == (ksd.size() > 1)


def test_errors_of_an_ops_inputs_do_too():
    table = keras_sparse.EmbeddingVariable(4, 2)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        ops.import_rows([table], [tf.constant([1], tf.int64)], [tf.zeros((2, 2))])
    assert f"{PREFIX}`records" in error.value.message
