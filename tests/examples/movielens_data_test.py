import dataclasses
import hashlib
import re
import zipfile

import numpy as np
import pytest

import movielens_archive
import movielens_data


def test_joins_the_three_tables_and_drops_the_threes(tiny_files):
    ratings = movielens_data.parse(*tiny_files)
    assert len(ratings) == 4
    np.testing.assert_array_equal(ratings.labels, [1, 0, 1, 0])
    key = movielens_data.hash_keys
    films = ["Misérables, Les (1995)", "Freaks (1932)", "Toy Story (1995)", "Freaks (1932)"]
    np.testing.assert_array_equal(ratings.columns["user"], key(["u1", "u1", "u2", "u3"]))
    np.testing.assert_array_equal(ratings.columns["item"], key(films))
    np.testing.assert_array_equal(ratings.columns["zip"], key(["48067", "48067", "70072", "48067"]))


def test_numbers_the_side_fields_by_their_sorted_texts(tiny_files):
    ratings = movielens_data.parse(*tiny_files)
    assert ratings.vocabularies["gender"] == ["F", "M"]
    assert ratings.vocabularies["year"] == ["1932", "1995"]
    np.testing.assert_array_equal(ratings.columns["gender"], [0, 0, 1, 1])
    np.testing.assert_array_equal(ratings.columns["age"], [1, 1, 2, 1])  # of 1, 25, 56
    np.testing.assert_array_equal(ratings.columns["occupation"], [0, 0, 2, 1])  # of 10, 15, 16
    np.testing.assert_array_equal(ratings.columns["year"], [1, 0, 1, 0])
    assert {column.dtype for column in ratings.columns.values()} == {
        np.dtype("int64"),
        np.dtype("int32"),
    }


def test_gives_each_rating_the_genres_of_its_film(tiny_files):
    ratings = movielens_data.parse(*tiny_files)
    words = [ratings.vocabularies["genres"][index] for index in ratings.genre_ids]
    np.testing.assert_array_equal(ratings.genre_splits, [0, 1, 3, 6, 8])
    assert words == [
        *("Drama",),
        *("Horror", "Drama"),
        *("Animation", "Children's", "Comedy"),
        *("Horror", "Drama"),
    ]


def test_reads_both_kinds_of_line_ends(tiny_files):
    dos = movielens_data.parse(*(content.replace(b"\n", b"\r\n") for content in tiny_files))
    unix = movielens_data.parse(*tiny_files)
    assert dos.vocabularies == unix.vocabularies
    np.testing.assert_array_equal(dos.columns["zip"], unix.columns["zip"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a:token\tb:token\n1\t2\n3\n", "Received: line 3 = '3'"),
        (b"a:token\tb:token\n1\t2\t3\n", "Received: line 2 = '1\\t2\\t3'"),
        (b"", "Received: line 1 = ''"),
        (b"1\t2\n", "must be a header that starts with 'a:'. Received: line 1 = '1\\t2'"),
    ],
)
def test_refuses_a_damaged_table(content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        movielens_data.read_table(content, ("a", "b"))
    assert movielens_data.read_table(b"a:token\tb:token\n", ("a", "b")) == [[], []]


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        (2, b"Freaks (", b"Freak (", r"each rated item_id must stand in its table.*'Freaks"),
        (1, b"u4", b"u1", "each user_id must stand once in its table. Received: 4 lines, 3 dif"),
    ],
)
def test_refuses_tables_that_do_not_belong_together(table, old, new, message, tiny_files):
    files = list(tiny_files)
    files[table] = files[table].replace(old, new)
    with pytest.raises(ValueError, match=message):
        movielens_data.parse(*files)


def test_keys_are_the_same_on_every_machine():
    # printf 'Toy Story (1995)' | b2sum --length 64 gives the bytes, the first the lowest.
    keys = movielens_data.hash_keys(["Toy Story (1995)", "", "Misérables, Les (1995)"])
    assert keys.dtype == np.int64
    assert [key.tobytes().hex() for key in keys.astype("<i8")] == [
        "549bd1e9b18db21e",
        "e4a6a0577479b2b4",
        "ff1cc175f4599a70",
    ]
    # A hundred thousand texts have different ones.
    keys = movielens_data.hash_keys([f"user {number}" for number in range(100_000)])
    assert len(np.unique(keys)) == 100_000
    assert 0.49 < (keys < 0).mean() < 0.51
    assert movielens_data.hash_keys([]).shape == (0,)


def test_gathers_ragged_rows_in_any_order():
    values, splits = np.array([7, 8, 9]), np.array([0, 2, 2, 3])  # rows 7 8, none, 9
    gathered, new_splits = movielens_data.gather_ragged(values, splits, np.array([2, 0, 1, 2]))
    np.testing.assert_array_equal(gathered, [9, 7, 8, 9])
    np.testing.assert_array_equal(new_splits, [0, 1, 3, 3, 4])


def test_split_puts_each_rating_into_one_part():
    parts = movielens_data.split(1005, seed=3)
    assert [len(part) for part in parts] == [804, 100, 101]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1005))
    again, other = (movielens_data.split(1005, seed)[2] for seed in (3, 1))
    np.testing.assert_array_equal(again, parts[2])
    assert (other != again).any()


def test_load_reads_straight_from_the_wheel(tmp_path, tiny_files, monkeypatch):
    path = tmp_path / "films-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for end, content in zip((".inter", ".user", ".item"), tiny_files, strict=True):
            wheel.writestr(f"films/ml{end}", content)
    archive = movielens_archive.Archive(
        requirement="films==1.0",
        filename=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        prefix="films/ml",
    )
    monkeypatch.setitem(movielens_archive.ARCHIVES, "tiny", archive)
    loaded, parsed = movielens_data.load("tiny", tmp_path), movielens_data.parse(*tiny_files)
    for field in dataclasses.fields(loaded):
        np.testing.assert_equal(getattr(loaded, field.name), getattr(parsed, field.name))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_load_names_the_sizes_there_are():
    with pytest.raises(ValueError, match=r"must be one of \('1m', '100k'\). Received: size='20m'"):
        movielens_data.load("20m")
