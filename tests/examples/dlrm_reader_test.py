import gzip
import itertools
import json
import re

import numpy as np
import pytest

from examples.dlrm import generate
from examples.dlrm import raw_lines
from examples.dlrm import reader
from examples.dlrm import split_binary
from examples.dlrm.raw_lines import Chunk
from examples.dlrm.raw_lines import MISSING_CATEGORY
from examples.dlrm.raw_lines import MISSING_NUMBER

NUM_TRAIN = 90


@pytest.fixture
def folder(make_features, tmp_path):
    return make_features(tmp_path, 105, 50)[1]


@pytest.fixture
def part(folder):
    return split_binary.Part(folder, "train")


def check_batch(batch, part, first, last):
    features, labels = batch
    numerical, ids, expected = part.read(first, last)
    np.testing.assert_array_equal(features["numerical"], numerical)
    np.testing.assert_array_equal(features["ids"], ids)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("first_step", [0, 1, 5])
def test_a_step_has_its_batch_wherever_reading_begins(part, first_step):
    batches = reader.training_batches(part, 40, lambda: first_step)
    begins = itertools.islice(itertools.cycle([0, 40]), first_step, None)  # 10 are left over
    for batch, begin in zip(batches.take(5), begins, strict=False):
        check_batch(batch, part, begin, begin + 40)


def test_reading_begins_at_the_step_that_is_next_then(part):
    step = 0
    batches = reader.training_batches(part, 40, lambda: step)
    step = 1
    check_batch(next(iter(batches)), part, 40, 80)


def test_an_evaluation_has_each_sample_once_or_whole_batches(part):
    first, second, last = reader.evaluation_batches(part, 40)
    for batch, begin, end in ((first, 0, 40), (second, 40, 80), (last, 80, NUM_TRAIN)):
        check_batch(batch, part, begin, end)
    assert len(reader.evaluation_batches(part, 40, drop_remainder=True)) == 2


def test_ranks_have_each_sample_of_a_batch_once():
    for batch, samples in ((0, range(40)), (2, range(80, 90))):
        parts = [reader.samples_of(batch, 40, 90, rank, 4) for rank in range(4)]
        assert [i for begin, end in parts for i in range(begin, end)] == list(samples)
        sizes = {end - begin for begin, end in parts}
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("batch_size", [0, 91])
def test_refuses_a_batch_that_there_is_not(part, batch_size):
    message = f"Received: batch_size={batch_size}, 1 ranks, 90 samples"
    with pytest.raises(ValueError, match=message):
        reader.training_batches(part, batch_size)


@pytest.mark.parametrize(("name", "expected"), [("cat_3.bin", 90), ("numerical.bin", 2340)])
def test_refuses_files_of_other_lengths(folder, name, expected):
    path = folder / "train" / name
    path.write_bytes(path.read_bytes()[:-1])
    message = f"Received: {path} of {expected - 1} bytes, expected {expected} for the 90 samples"
    with pytest.raises(ValueError, match=re.escape(message)):
        split_binary.Part(folder, "train")


def test_refuses_sizes_of_other_data(folder):
    (folder / "model_size.json").write_text(json.dumps({"_c14": 9}))
    with pytest.raises(ValueError, match=r"largest id of 26 categories\. Received: 1"):
        split_binary.Part(folder, "train")


def test_reads_what_the_original_writes(tmp_path):
    """Its files, column by column as its documentation has them."""
    rng = np.random.default_rng(0)
    largest = [126, 127, *range(200, 224)]  # the first of one byte an id, the others of two
    (tmp_path / "model_size.json").write_text(
        json.dumps({f"_c{14 + i}": each for i, each in enumerate(largest)})
    )
    (tmp_path / "train").mkdir()
    labels, numerical = rng.random(7) < 0.5, rng.random((7, 13)).astype(np.float16)
    ids = [rng.integers(0, 1 + each, 7) for each in largest]
    labels.tofile(tmp_path / "train" / "label.bin")
    numerical.tofile(tmp_path / "train" / "numerical.bin")
    for i, column in enumerate(ids):
        column.astype(np.int16 if i else np.int8).tofile(tmp_path / "train" / f"cat_{i}.bin")
    part = split_binary.Part(tmp_path, "train")
    assert part.num_ids == [1 + each for each in largest]
    received = part.read(2, 6)
    np.testing.assert_array_equal(received[0], numerical[2:6])
    np.testing.assert_array_equal(received[1], np.stack(ids, axis=1)[2:6])
    np.testing.assert_array_equal(received[2][:, 0], labels[2:6])


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
