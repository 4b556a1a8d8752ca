import gzip
import re

import numpy as np
import pytest

from examples.dlrm import generate
from examples.dlrm import raw_lines
from examples.dlrm.raw_lines import Chunk
from examples.dlrm.raw_lines import MISSING_CATEGORY
from examples.dlrm.raw_lines import MISSING_NUMBER


def parse(text, first_line=1):
    return raw_lines.parse(Chunk("day_0", first_line, text.encode(), len(text)))


def parse_plainly(text):
    """Labels, numbers and categories, field by field."""
    rows = [line.split("\t") for line in text.splitlines()]
    return (
        [row[0] == "1" for row in rows],
        [[int(each) if each else MISSING_NUMBER for each in row[1:14]] for row in rows],
        [[int(each, 16) if each else MISSING_CATEGORY for each in row[14:]] for row in rows],
    )


def check_equal(samples, expected):
    labels, numbers, categories = expected
    np.testing.assert_array_equal(samples.labels, labels)
    np.testing.assert_array_equal(samples.numbers, numbers)
    np.testing.assert_array_equal(samples.categories, categories)


def test_reads_odd_fields(raw_line):
    numbers = {0: -3, 1: 0, 12: 10**18 - 1}
    categories = {0: "00000000", 1: "FFFFffff", 2: "a", 25: "09afAF"}
    text = raw_line("1", numbers, categories) + raw_line() + raw_line("0", {12: 7}, {25: "ab"})
    check_equal(parse(text), parse_plainly(text))
    check_equal(parse(text[:-1]), parse_plainly(text))  # the last line may end with the file


@pytest.mark.parametrize(("chunk_bytes", "num_chunks"), [(1, 20), (10**6, 1)])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_chunks_are_whole_lines_that_know_their_numbers(
    tmp_path, chunk_bytes, num_chunks, is_compressed
):
    text, _ = generate.Clicks(seed=3).draw(20)
    path = tmp_path / ("day_0.gz" if is_compressed else "day_0")
    path.write_bytes(gzip.compress(text.encode()) if is_compressed else text.encode())
    chunks = list(raw_lines.read_chunks(path, chunk_bytes))
    assert b"".join(chunk.text for chunk in chunks).decode() == text
    lines = [chunk.text.count(b"\n") for chunk in chunks]
    assert [chunk.first_line for chunk in chunks] == [1 + sum(lines[:i]) for i in range(len(lines))]
    assert sum(chunk.num_bytes for chunk in chunks) == path.stat().st_size
    assert len(chunks) == num_chunks


@pytest.mark.parametrize(
    ("label", "numbers", "categories", "message"),
    [
        ("2", {}, {}, "field 1 of a line must be the label, 0 or 1"),
        ("", {}, {}, "field 1 of a line must be the label, 0 or 1"),
        ("0", {0: "1.5"}, {}, "field 2 of a line must be a whole number, or nothing"),
        ("0", {12: "-"}, {}, "field 14 of a line must be a whole number, or nothing"),
        ("0", {3: "1" * 19}, {}, "field 5 of a line must be a whole number, or nothing"),
        ("0", {3: "3-"}, {}, "field 5 of a line must be a whole number, or nothing"),
        ("0", {}, {0: "xyz"}, "field 15 of a line must be up to 8 hexadecimal digits, or nothing"),
        ("0", {}, {25: "123456789"}, "field 40 of a line must be up to 8 hexadecimal digits"),
        ("0", {}, {25: "ab\r"}, "field 40 of a line must be up to 8 hexadecimal digits"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(raw_line, label, numbers, categories, message):
    text = raw_line() * 2 + raw_line(label, numbers, categories) + raw_line()
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        parse(text, first_line=101)
    (received,) = [label, *numbers.values(), *categories.values()][-1:]
    assert str(error.value).endswith(f"Received: {received!r} in day_0, line 103")


@pytest.mark.parametrize(
    ("line", "received"),
    [
        ("1\t2\n", "2 fields in day_0, line 12: '1\\t2'"),
        ("\n", "1 fields in day_0, line 12: ''"),
        ("\t" * 40 + "\n", "41 fields in day_0, line 12: " + repr("\t" * 40)),
        ("\x00" * 500, f"1 fields in day_0, line 12: {chr(0) * 80 + '...'!r}"),
    ],
)
def test_a_line_with_other_fields_is_named(raw_line, line, received):
    with pytest.raises(ValueError, match="each line must have 40 fields") as error:
        parse(raw_line() + line, first_line=11)
    assert str(error.value).endswith(f"Received: {received}")
