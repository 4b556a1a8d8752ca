"""The data set in files of fixed-size entries, as NVIDIA's DLRM has it ("split binary").

    model_size.json     the largest id of each category
    train/, test/
      label.bin         a byte a sample, 0 or 1
      numerical.bin     13 float16 a sample, or float32
      cat_0.bin ...     an id a sample: int8, int16 or int32, the smallest that has room
      cat_25.bin

Sample i is at place i of each file, so that a batch is one piece of each of them.
"""

import contextlib
import json
import pathlib

import numpy as np

from examples.dlrm.raw_lines import NUM_CATEGORICAL
from examples.dlrm.raw_lines import NUM_NUMERICAL

SIZES = "model_size.json"
_FIRST_CATEGORY = 1 + NUM_NUMERICAL  # Criteo's columns are _c0 to _c39


def id_dtype(num_ids):
    """The smallest dtype whose largest number is above the largest id, as the original has it."""
    for dtype in (np.int8, np.int16, np.int32):
        if num_ids - 1 < np.iinfo(dtype).max:
            return np.dtype(dtype)
    raise ValueError(
        f"a category must have at most {np.iinfo(np.int32).max} ids. Take fewer hash buckets, "
        f"or a higher frequency threshold. Received: {num_ids}"
    )


def write_sizes(folder, num_ids):
    """Writes how many ids each category has. A folder without that file is not complete."""
    largest = {f"_c{_FIRST_CATEGORY + i}": int(each) - 1 for i, each in enumerate(num_ids)}
    (pathlib.Path(folder) / SIZES).write_text(json.dumps(largest, indent=1) + "\n")


def read_sizes(folder):
    """Returns how many ids each category has."""
    path = pathlib.Path(folder) / SIZES
    if not path.exists():
        raise FileNotFoundError(
            "the folder must hold a preprocessed data set. Make one with `python -m examples.dlrm "
            f"preprocess`, which writes {SIZES} at its end. Received: {folder}"
        )
    largest = json.loads(path.read_text())
    if len(largest) != NUM_CATEGORICAL:
        raise ValueError(
            f"{path} must have the largest id of {NUM_CATEGORICAL} categories. Received: "
            f"{len(largest)}"
        )
    return [each + 1 for each in largest.values()]


def file_names():
    return ["label.bin", "numerical.bin", *(f"cat_{i}.bin" for i in range(NUM_CATEGORICAL))]


class Writer:
    """Appends samples to the files of `train` or `test`; to be used in a `with` statement."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._closing = contextlib.ExitStack()
        self.num_samples = 0

    def __enter__(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        self._files = [
            self._closing.enter_context((self._folder / name).open("wb")) for name in file_names()
        ]
        return self

    def __exit__(self, *error):
        self._closing.close()

    def write(self, columns):
        """Writes labels, numerical features and the ids of each category: arrays as in files."""
        for file, column in zip(self._files, columns, strict=True):
            file.write(column.tobytes())
        self.num_samples += len(columns[0])


def move_tail(from_folder, to_folder, num_samples, num_moved, chunk_bytes):
    """Moves the last ones of the samples from the files of one folder to those of another."""
    from_folder, to_folder = pathlib.Path(from_folder), pathlib.Path(to_folder)
    to_folder.mkdir(parents=True, exist_ok=True)
    for name in file_names():
        with open(from_folder / name, "r+b") as source, open(to_folder / name, "wb") as target:
            entry = source.seek(0, 2) // num_samples
            source.seek((num_samples - num_moved) * entry)
            while piece := source.read(chunk_bytes):
                target.write(piece)
            source.truncate((num_samples - num_moved) * entry)


class Part:
    """The samples of `train` or `test`, which stay on the disk until they are read.

    Args:
        folder: Folder of the whole data set.
        name: `"train"` or `"test"`.
    """

    def __init__(self, folder, name):
        self.num_ids = read_sizes(folder)
        self._folder = pathlib.Path(folder) / name
        # A byte a sample.
        self.num_samples = (self._folder / "label.bin").stat().st_size
        self._labels = self._open("label.bin", np.dtype(np.uint8))
        self._numerical = self._open_numerical()
        self._ids = [
            self._open(f"cat_{i}.bin", id_dtype(each)) for i, each in enumerate(self.num_ids)
        ]

    def __len__(self):
        return self.num_samples

    def read(self, first, last):
        """Returns the samples from `first` up to `last`, without it.

        Returns:
            `(numerical, ids, labels)`: float32 `(n, 13)`, int32 `(n, 26)`, float32 `(n, 1)`.
        """
        ids = np.empty((last - first, NUM_CATEGORICAL), np.int32)
        for i, column in enumerate(self._ids):
            ids[:, i] = column[first:last]
        numerical = self._numerical[first:last].astype(np.float32)
        return numerical, ids, self._labels[first:last, np.newaxis].astype(np.float32)

    def _open_numerical(self):
        path = self._folder / "numerical.bin"
        is_half = path.stat().st_size <= self.num_samples * NUM_NUMERICAL * 2
        dtype = np.dtype(np.float16 if is_half else np.float32)
        return self._open("numerical.bin", dtype, (NUM_NUMERICAL,))

    def _open(self, name, dtype, shape=()):
        path = self._folder / name
        expected = self.num_samples * int(np.prod(shape)) * dtype.itemsize
        if path.stat().st_size != expected:
            raise ValueError(
                "all files must have as many samples. Preprocess the data anew. Received: "
                f"{path} of {path.stat().st_size} bytes, expected {expected} for the "
                f"{self.num_samples} samples of label.bin"
            )
        if not expected:
            return np.zeros((0, *shape), dtype)  # an empty file cannot be mapped
        return np.memmap(path, dtype, "r", shape=(self.num_samples, *shape))
