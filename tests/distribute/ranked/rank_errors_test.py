import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.saving import CheckpointDamagedError

PREFIX = "" if ksd.size() == 1 else f"[rank {ksd.rank()} of {ksd.size()}] "


def test_errors_of_native_ops_begin_with_the_rank():
    assert error_prefix() == PREFIX
    table = keras_sparse.EmbeddingVariable(4, 2)
    ids, rows = tf.constant([1, 9], tf.int64), tf.zeros((3, 2))
    for call, words in [
        (lambda: native.lookup([table], [ids]), "id must be in"),
        (lambda: native.import_rows([table], [ids], [rows]), "`records"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            call()
        assert f"{PREFIX}{words}" in error.value.message
        assert ("[rank " in error.value.message) == (ksd.size() > 1)


class ForeignError(Exception):
    """An error of another package."""


class UnnamedError(ValueError):
    """An error that says it is built in, as some of compiled packages do."""

    __module__ = "builtins"


ERRORS = [
    (ValueError("what is wrong"), ValueError),
    (OSError(28, "what is wrong"), OSError),
    (CheckpointDamagedError("what is wrong"), CheckpointDamagedError),
    (ForeignError("what is wrong"), RuntimeError),
    (UnnamedError("what is wrong"), RuntimeError),
    (ExceptionGroup("what is wrong", [ValueError("in it")]), RuntimeError),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "what is wrong"), RuntimeError),
]


def fail_on_rank_1(error):
    with errors_on_all_ranks("test"):
        if ksd.rank() == 1:
            raise error


@pytest.mark.skipif(ksd.size() == 1, reason="needs a rank that does not fail")
@pytest.mark.parametrize(
    ("error", "kind"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS]
)
def test_an_error_of_one_rank_is_one_of_all(error, kind):
    with pytest.raises(Exception, match="what is wrong") as raised:
        fail_on_rank_1(error)
    if ksd.rank() == 1:
        assert raised.value is error
    else:
        assert type(raised.value) is kind
        assert str(raised.value).startswith(f"{PREFIX}rank 1 has failed")
    assert gather_objects(ksd.rank(), "in_step") == list(range(ksd.size()))
