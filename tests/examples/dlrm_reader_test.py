import itertools
import json
import re

import numpy as np
import pytest

from examples.dlrm import reader
from examples.dlrm import split_binary

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
