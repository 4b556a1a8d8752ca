import pytest

from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.byte_sizes import parse_bytes
from keras_sparse.utils.byte_sizes import seconds_text


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
