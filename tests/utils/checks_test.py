import pathlib
import re

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.utils import checks


@pytest.mark.parametrize("value", [3, np.int64(3)])
def test_an_integer_above_zero_comes_back_as_an_int(value):
    assert type(checks.positive(value, "rows")) is int
    assert checks.positive_or_none(value, "rows") == 3
    assert checks.positive_or_none(None, "rows") is None
    assert checks.integer_or_none(None, "rows") is None


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        *[(value, "") for value in ("1", True, None, 1.5, float("inf"), float("nan"), [1.0])],
        *[(1e9, ": int(1000000000.0)"), (np.float32(2), f": int({np.float32(2)!r})")],
    ],
)
def test_what_is_no_integer_is_named_with_its_type(value, remedy):
    words = f"`rows` must be an integer{remedy}. Received: rows={value!r} of type "
    with pytest.raises(TypeError, match=f"^{re.escape(words)}{type(value).__name__}$"):
        checks.positive(value, "rows")


@pytest.mark.parametrize(
    ("check", "value", "error", "words"),
    [
        (checks.positive, 0, ValueError, "must be above 0. Received: rows=0"),
        (checks.positive, -1, ValueError, "must be above 0. Received: rows=-1"),
        (checks.not_negative, -1, ValueError, r"must not be below 0\. Received: rows=-1"),
        *[
            (checks.fraction, each, ValueError, r"must be above 0 and at most 1\. Received: rows=")
            for each in (0, -0.5, 1.01, float("nan"))
        ],
        (checks.fraction, True, TypeError, r"must be a number\. Received: rows=True"),
        (checks.boolean, 0, TypeError, "must be True or False"),
        *[
            (checks.path, each, TypeError, f"must be a path: .* type {type(each).__name__}")
            for each in (None, 3, ["a"], 1.5)
        ],
    ],
)
def test_what_is_refused_is_named(check, value, error, words):
    with pytest.raises(error, match=f"`rows` {words}"):
        check(value, "rows")


def test_what_is_allowed_comes_back():
    assert checks.not_negative(0, "rows") == 0
    assert checks.fraction(1, "rate") == 1
    assert checks.boolean(False, "trainable") is False
    for path in ("a/b", pathlib.Path("a/b"), b"a/b"):
        assert checks.path(path, "folder") == "a/b"


def test_a_choice_is_named_with_what_is_allowed():
    assert checks.one_of("sum", ("sum", "mean"), "combiner") == "sum"
    with pytest.raises(
        ValueError, match=r"`combiner` must be one of \('sum', 'mean'\). Received: combiner='max'"
    ):
        checks.one_of("max", ["sum", "mean"], "combiner")


def test_lists_of_other_lengths_are_named():
    checks.same_length({"ids": [1, 2], "weights": [3, 4]})
    with pytest.raises(ValueError, match=r"`ids`, `weights` must have one element a table.*2.*1"):
        checks.same_length({"ids": [1, 2], "weights": [3]})


@pytest.mark.parametrize("function", ["save_checkpoint", "load_checkpoint"])
@pytest.mark.parametrize("value", [None, 3])
def test_checkpoints_name_the_path_that_is_none(function, value):
    model = keras.Sequential(
        [keras.Input((1,), dtype="int64"), keras_sparse.layers.Embedding(None, 2)]
    )
    model.compile("sgd", "mse")
    with pytest.raises(TypeError, match=f"`path` must be a path: .*{value}"):
        getattr(keras_sparse.saving, function)(model, value)
    with pytest.raises(TypeError, match="`filepath` must be a path"):
        keras_sparse.saving.verify(value)
    with pytest.raises(TypeError, match="`path` must be a path"):
        keras_sparse.callbacks.Checkpoint(value)
