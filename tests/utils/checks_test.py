import pathlib
import re

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.byte_sizes import parse_bytes
from keras_sparse.utils.byte_sizes import seconds_text


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
    with pytest.raises(ValueError, match=r"`ids`, `weights` must have one element per table.*2.*1"):
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


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1001, "1.01 kB"),
        (12_000_000_000, "12.0 GB"),
        (999_999_999, "1000 MB"),
        (123_456_789_012_345, "124 TB"),
        (10**16, "10000 TB"),
    ],
)
def test_bytes_are_rounded_up(number, text):
    assert bytes_text(number) == text


def test_seconds_have_three_digits():
    texts = [seconds_text(each) for each in (0, 2e-5, 0.0012345, 0.123456, 1.5, 12345)]
    assert texts == ["0.00 us", "20.0 us", "1.23 ms", "123 ms", "1.50 s", "12345 s"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (5, 5),
        ("5", 5),
        ("16GB", 16 * 10**9),
        ("16 gib", 16 * 2**30),
        ("1.5MB", 1_500_000),
        ("2e9", 2 * 10**9),
        ("1TiB", 2**40),
        ("1KB", 1000),
        ("1kiB", 1024),
        ("1.00 kB", 1000),
        ("9007199254740993", 2**53 + 1),
    ],
)
def test_reads_bytes(text, number):
    assert parse_bytes(text, "size") == number


NO_BYTES = ["", "GB", "8G", "16 bytes", "-1GB", "0", "1.2.3", "inf", "16GB!", "0.5", ".", "1kb/s"]


@pytest.mark.parametrize("text", [*NO_BYTES, "1e19", "1e99TB", "1e999999999"])
def test_refuses_what_are_no_bytes(text):
    words = r"`size` must be a number of bytes above 0, such as 16GB.* one of TB, GB, .*KiB\."
    with pytest.raises(ValueError, match=words):
        parse_bytes(text, "size")


@pytest.mark.parametrize("number", [1, 999, 1000, 123_456, 10**9, 2 * 10**12])
def test_reads_what_it_prints(number):
    assert parse_bytes(bytes_text(number), "size") == pytest.approx(number, rel=0.01)
