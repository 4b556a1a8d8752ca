"""Reads Criteo's raw lines into arrays, with numpy alone.

A line has 40 fields with tabs in between: the label, 13 whole numbers and 26 categories, which are
hashes of 32 bits in hexadecimal. A number or a category may be missing: its field is empty then.
The day files of the 1TB set and `train.txt` of the Kaggle set are alike in this.
"""

import dataclasses
import gzip
import os
import zlib

import numpy as np

NUM_NUMERICAL = 13
NUM_CATEGORICAL = 26
NUM_FIELDS = 1 + NUM_NUMERICAL + NUM_CATEGORICAL
MISSING_NUMBER = np.iinfo(np.int64).min
MISSING_CATEGORY = -1

_MOST_DECIMAL = 18  # digits that always fit into 64 bits
_MOST_HEXADECIMAL = 8
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
for _value, _letter in enumerate(b"0123456789abcdef"):
    _DIGITS[[_letter, bytes([_letter]).upper()[0]]] = _value


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Whole lines of a file.

    Args:
        path: String.
        first_line: Integer. The number of the first of them in the file, from 1.
        text: Bytes.
        num_bytes: Integer. How much of the file they are, which may be compressed.
    """

    path: str
    first_line: int
    text: bytes
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class Samples:
    """What lines say.

    Args:
        labels: Bool `(num_samples,)`.
        numbers: Int64 `(num_samples, 13)`, `MISSING_NUMBER` where there is none.
        categories: Int64 `(num_samples, 26)`, from 0 to `2**32 - 1`, `MISSING_CATEGORY` likewise.
    """

    labels: np.ndarray
    numbers: np.ndarray
    categories: np.ndarray


def read_chunks(path, chunk_bytes):
    """Yields the lines of a file, which may be a `.gz`, about so many bytes at a time."""
    path, first_line, position = str(path), 1, 0
    is_compressed = path.endswith(".gz")
    with open(path, "rb") as file, gzip.GzipFile(fileobj=file) if is_compressed else file as lines:
        while text := _next_lines(lines, chunk_bytes, path, first_line):
            before, position = position, file.tell()
            yield Chunk(path, first_line, text, position - before)
            first_line += text.count(b"\n")


def _next_lines(lines, chunk_bytes, path, first_line):
    try:
        return lines.read(chunk_bytes) + lines.readline()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"a .gz file must be whole. Download it again. Received: {path}, damaged after line "
            f"{first_line - 1}"
        ) from error


def num_bytes(paths):
    return sum(os.path.getsize(path) for path in paths)


def parse(chunk):
    """Returns the `Samples` of a chunk.

    Raises:
        ValueError: A line is not as it has to be. It names the file and the line.
    """
    content = chunk.text if chunk.text.endswith(b"\n") else chunk.text + b"\n"
    # Behind the last field there is something to read, whose value does not matter.
    text = np.frombuffer(content + bytes(_MOST_DECIMAL + 1), np.uint8)
    ends = np.flatnonzero((text == ord("\t")) | (text == ord("\n")))
    _check_fields(chunk, content, text[ends] == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1]).reshape(-1, NUM_FIELDS)
    fields = _Fields(chunk, text, starts, ends.reshape(-1, NUM_FIELDS) - starts)
    labels = fields.numbers(slice(0, 1), "the label, 0 or 1", lambda values: values >> 1 == 0)
    return Samples(
        labels[:, 0] == 1,
        fields.numbers(slice(1, 1 + NUM_NUMERICAL), "a whole number, or nothing"),
        fields.categories(slice(1 + NUM_NUMERICAL, NUM_FIELDS)),
    )


def _check_fields(chunk, content, is_line_end):
    num_fields = np.diff(np.flatnonzero(is_line_end), prepend=-1)
    wrong = np.flatnonzero(num_fields != NUM_FIELDS)
    if len(wrong):
        line = content.split(b"\n", wrong[0] + 1)[wrong[0]]
        raise ValueError(
            f"each line must have {NUM_FIELDS} fields with tabs in between: the label, "
            f"{NUM_NUMERICAL} numbers, {NUM_CATEGORICAL} categories. Correct the line, or remove "
            f"it. Received: {num_fields[wrong[0]]} fields in {chunk.path}, line "
            f"{chunk.first_line + wrong[0]}: {_shown(line)}"
        )


@dataclasses.dataclass(frozen=True)
class _Fields:
    """Where the fields of a chunk are in its text, `(num_samples, NUM_FIELDS)`."""

    chunk: Chunk
    text: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def numbers(self, columns, rule, are_right=None):
        starts, lengths = self.starts[:, columns], self.lengths[:, columns]
        is_negative = (self.text[starts] == ord("-")) & (lengths > 0)
        values, is_wrong = self._parse(
            starts + is_negative, lengths - is_negative, 10, _MOST_DECIMAL
        )
        is_wrong |= is_negative & (lengths == 1)
        values = np.where(is_negative, -values, values)
        values[lengths == 0] = MISSING_NUMBER
        if are_right is not None:
            is_wrong |= ~are_right(values)
        self._check(is_wrong, columns, rule)
        return values

    def categories(self, columns):
        lengths = self.lengths[:, columns]
        values, is_wrong = self._parse(self.starts[:, columns], lengths, 16, _MOST_HEXADECIMAL)
        self._check(is_wrong, columns, f"up to {_MOST_HEXADECIMAL} hexadecimal digits, or nothing")
        values[lengths == 0] = MISSING_CATEGORY
        return values

    def _parse(self, starts, lengths, base, most):
        """Returns the values of all fields, one place of digits after the other."""
        values, is_wrong = np.zeros_like(starts), lengths > most
        for place in range(min(int(lengths.max(initial=0)), most)):
            digits = _DIGITS[self.text[starts + place]]
            is_there = lengths > place
            is_wrong |= is_there & (digits >= base)
            values = np.where(is_there, values * base + digits, values)
        return values, is_wrong

    def _check(self, is_wrong, columns, rule):
        if is_wrong.any():
            line, column = np.argwhere(is_wrong)[0]
            field = columns.start + column
            start = self.starts[line, field]
            received = self.text[start : start + self.lengths[line, field]].tobytes()
            raise ValueError(
                f"field {field + 1} of a line must be {rule}. Correct the line, or remove it. "
                f"Received: {_shown(received)} in {self.chunk.path}, line "
                f"{self.chunk.first_line + line}"
            )


def _shown(text):
    """Text of a file as a message has it: damage may be long, and no text at all."""
    text = text.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 80 else text[:80] + "...")
