import collections
import gzip
import json
import math
import re

import numpy as np
import pytest

from examples.dlrm import __main__ as dlrm
from examples.dlrm import encode
from examples.dlrm import generate
from examples.dlrm import split_binary

SAMPLES = 700
by_processes = pytest.mark.parametrize(
    "processes", [1, pytest.param(2, marks=pytest.mark.slow("starts processes"))]
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """A folder with raw files, three days and all of them in one."""
    folder = tmp_path_factory.mktemp("raw")
    generate.generate(folder, SAMPLES, days=3)
    days = [(folder / f"day_{i}").read_text() for i in range(3)]
    (folder / "train.txt").write_text("".join(days))
    (folder / "day_1.gz").write_bytes(gzip.compress(days[1].encode()))
    return folder


def preprocess(output, *options):
    dlrm.main(["preprocess", "--output", str(output), *map(str, options)])
    return [split_binary.Part(output, name) for name in ("train", "test")]


def read_all(part):
    return part.read(0, len(part))


def rows_of(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def encode_plainly(rows, id_of, dtype=np.float16):
    """The features of split lines, field by field; `id_of` takes a feature and its text."""
    numbers = [
        [math.log(max(int(each), -2) + 3) if each else 0.0 for each in row[1:14]] for row in rows
    ]
    ids = [[id_of(i, text) for i, text in enumerate(row[14:])] for row in rows]
    labels = [[float(row[0])] for row in rows]
    return np.array(numbers, np.float32).astype(dtype), np.array(ids), np.array(labels)


def check_equal(part, expected, rtol=0.0):
    numerical, ids, labels = read_all(part)
    np.testing.assert_allclose(numerical, np.float32(expected[0]), rtol)
    np.testing.assert_array_equal(ids, expected[1])
    np.testing.assert_array_equal(labels, expected[2])


def id_by_hash(feature, text):
    return 1 + int(text, 16) % 99 if text else 0


def ids_by_frequency(rows, threshold):
    """A function of a feature and its text: the most frequent first, then the lower hash."""
    made = []
    for column in zip(*(row[14:] for row in rows), strict=True):
        counts = collections.Counter(column)
        kept = [text for text, n in counts.items() if text and n >= threshold]
        kept.sort(key=lambda text, counts=counts: (-counts[text], int(text, 16)))
        made.append({text: 1 + i for i, text in enumerate(kept)})
    return made


@pytest.mark.parametrize("chunk_mb", [0.004, 1])
def test_features_are_those_of_plain_python(raw, tmp_path, chunk_mb):
    options = ("--train", raw / "train.txt", "--hash_buckets", 100, "--chunk_mb", chunk_mb)
    train, test = preprocess(tmp_path, *options)
    rows = rows_of(raw / "train.txt")
    assert (len(train), len(test)) == (600, 100)
    # Half floats of logarithms that are rounded differently differ by one place of theirs.
    check_equal(train, encode_plainly(rows[:600], id_by_hash), rtol=1e-3)
    check_equal(test, encode_plainly(rows[600:], id_by_hash), rtol=1e-3)
    sizes = json.loads((tmp_path / "model_size.json").read_text())
    assert sizes == {f"_c{i}": 99 for i in range(14, 40)}


@by_processes
def test_frequent_categories_of_the_days_to_train_on_have_ids(raw, tmp_path, processes):
    train, test = preprocess(
        tmp_path,
        *("--train", raw / "day_0", raw / "day_1.gz", "--test", raw / "day_2"),
        *("--frequency_threshold", 3, "--numerical_dtype", "float32", "--processes", processes),
        *("--chunk_mb", 0.02),
    )
    rows = [rows_of(raw / f"day_{i}") for i in range(3)]
    known = ids_by_frequency([*rows[0], *rows[1]], threshold=3)

    def id_of(feature, text):
        return known[feature].get(text, 0)

    check_equal(train, encode_plainly([*rows[0], *rows[1]], id_of, np.float32), rtol=1e-6)
    check_equal(test, encode_plainly(rows[2], id_of, np.float32), rtol=1e-6)
    assert train.num_ids == [1 + len(each) for each in known]
    assert (tmp_path / "train" / "numerical.bin").stat().st_size == 4 * 13 * len(train)


def test_ids_take_the_smallest_type_that_has_room(raw, tmp_path):
    for buckets, dtype in ((127, np.int8), (128, np.int16), (40_000, np.int32)):
        part, _ = preprocess(
            tmp_path / str(buckets), "--train", raw / "day_0", "--hash_buckets", buckets
        )
        path = tmp_path / str(buckets) / "train" / "cat_25.bin"
        np.testing.assert_array_equal(np.fromfile(path, dtype), read_all(part)[1][:, 25])
    with pytest.raises(ValueError, match="must have at most 2147483647 ids"):
        split_binary.id_dtype(2**31)


def test_counts_of_many_chunks_are_those_of_one():
    categories = np.random.default_rng(0).integers(-1, 9_000, 200_000)
    counts = encode.Counts()
    for some in np.split(categories, 25):
        counts.add([np.unique(some, return_counts=True)] * 26)
    expected = np.unique(categories, return_counts=True)
    for received in counts.all():
        np.testing.assert_array_equal(received, expected)


@by_processes
def test_a_corrupt_line_is_named_and_leaves_no_data_set(raw, tmp_path, processes):
    lines = (raw / "day_0").read_text().splitlines(keepends=True)
    lines[123] = lines[123].replace("\t", "\tx", 1)
    path = tmp_path / "day_0"
    path.write_text("".join(lines))
    options = ("--train", path, "--hash_buckets", 9, "--chunk_mb", 0.004, "--processes", processes)
    with pytest.raises(ValueError, match=f"Received: 'x.*' in {re.escape(str(path))}, line 124$"):
        preprocess(tmp_path / "features", *options)
    with pytest.raises(FileNotFoundError, match="must hold a preprocessed data set"):
        split_binary.Part(tmp_path / "features", "train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hash_buckets", 1), "`--hash_buckets` must be at least 2. Received: 1"),
        (("--frequency_threshold", 0), "`--frequency_threshold` must be at least 1. Received: 0"),
        (("--hash_buckets", 9, "--test_fraction", 1), "`--test_fraction` must be from 0 up to 1"),
        (("--hash_buckets", 9, "--chunk_mb", 0), "`--chunk_mb` must be above 0. Received: 0"),
        (("--hash_buckets", 9, "--processes", 0), "`--processes` must be at least 1. Received: 0"),
    ],
)
def test_odd_options_are_refused(raw, tmp_path, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        preprocess(tmp_path, "--train", raw / "day_0", *options)


def test_a_file_that_is_not_there_is_found_before_the_work(raw, tmp_path):
    options = ("--train", raw / "day_0", "--hash_buckets", 9, "--test", raw / "day_9")
    with pytest.raises(FileNotFoundError, match=r"must be files\. Received: .*day_9"):
        preprocess(tmp_path / "out", *options)
    with pytest.raises(ValueError, match="`--test` must have files that `--train` has not"):
        preprocess(tmp_path / "out", *options[:-1], raw / "day_0")
    assert not (tmp_path / "out").exists()


def test_refuses_files_without_samples_and_writes_over_no_data_set(raw, tmp_path):
    (tmp_path / "train.txt").write_text("")
    with pytest.raises(ValueError, match="`--train` must have samples"):
        preprocess(tmp_path / "out", "--train", tmp_path / "train.txt", "--hash_buckets", 9)
    options = ("--train", raw / "day_0", "--hash_buckets", 9)
    preprocess(tmp_path, *options)
    with pytest.raises(FileExistsError, match="must be a folder without a data set"):
        preprocess(tmp_path, *options)


def test_half_of_a_compressed_file_is_named(raw, tmp_path):
    whole = (raw / "day_1.gz").read_bytes()
    (tmp_path / "half.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a \.gz file must be whole\. .* Received: .*half\.gz"):
        preprocess(tmp_path / "out", "--train", tmp_path / "half.gz", "--hash_buckets", 9)
