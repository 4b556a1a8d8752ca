import dataclasses
import hashlib
import zipfile

import numpy as np
import pytest

import movielens_data


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_joins_the_three_tables_and_drops_the_threes(line_end, tiny_files):
    files = [content.replace(b"\n", line_end) for content in tiny_files]
    ratings = movielens_data.parse(*files)
    assert len(ratings) == 4
    np.testing.assert_array_equal(ratings.labels, [1, 0, 1, 0])
    key = movielens_data.hash_keys
    films = ["Misérables, Les (1995)", "Freaks (1932)", "Toy Story (1995)", "Freaks (1932)"]
    expected = {
        "user": key(["u1", "u1", "u2", "u3"]),
        "item": key(films),
        "zip": key(["48067", "48067", "70072", "48067"]),
        "gender": np.int32([0, 0, 1, 1]),  # of F, M
        "age": np.int32([1, 1, 2, 1]),  # of 1, 25, 56
        "occupation": np.int32([0, 0, 2, 1]),  # of 10, 15, 16
        "year": np.int32([1, 0, 1, 0]),  # of 1932, 1995
    }
    assert list(ratings.columns) == list(expected)
    for name, column in ratings.columns.items():
        np.testing.assert_array_equal(column, expected[name], strict=True)
    assert ratings.vocabularies["gender"] == ["F", "M"]
    assert ratings.vocabularies["year"] == ["1932", "1995"]
    words = [ratings.vocabularies["genres"][index] for index in ratings.genre_ids]
    np.testing.assert_array_equal(ratings.genre_splits, [0, 1, 3, 6, 8])
    assert words[:3] == ["Drama", "Horror", "Drama"]
    assert words[3:] == ["Animation", "Children's", "Comedy", "Horror", "Drama"]


def test_keys_are_the_same_on_every_machine():
    # printf 'Toy Story (1995)' | b2sum --length 64 gives the bytes, the first the lowest.
    keys = movielens_data.hash_keys(["Toy Story (1995)", "", "Misérables, Les (1995)"])
    assert keys.dtype == np.int64
    assert [key.tobytes().hex() for key in keys.astype("<i8")] == [
        "549bd1e9b18db21e",
        "e4a6a0577479b2b4",
        "ff1cc175f4599a70",
    ]


def test_split_puts_each_rating_into_one_part():
    parts = movielens_data.split(1005, seed=3)
    assert [len(part) for part in parts] == [804, 100, 101]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1005))
    again, other = (movielens_data.split(1005, seed)[2] for seed in (3, 1))
    np.testing.assert_array_equal(again, parts[2])
    assert (other != again).any()


def test_load_reads_straight_from_the_wheel_of_that_hash(tmp_path, tiny_files, monkeypatch):
    path = tmp_path / "films-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for end, content in zip((".inter", ".user", ".item"), tiny_files, strict=True):
            wheel.writestr(f"films/ml{end}", content)
    archive = movielens_data.Archive(
        requirement="films==1.0",
        filename=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        prefix="films/ml",
    )
    monkeypatch.setitem(movielens_data.ARCHIVES, "tiny", archive)
    loaded, parsed = movielens_data.load("tiny", tmp_path), movielens_data.parse(*tiny_files)
    for field in dataclasses.fields(loaded):
        np.testing.assert_equal(getattr(loaded, field.name), getattr(parsed, field.name))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    path.write_bytes(b"half of it")
    with pytest.raises(ValueError, match="must have sha256"):
        movielens_data.load("tiny", tmp_path)
