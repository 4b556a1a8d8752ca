"""Checks a built wheel: every Python file is in it, and it imports away from the checkout.

The import runs under `python -S`, where the editable installation's import hook is not at work.
There the libraries that lower tiers need of the system are absent: their names are changed.
"""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

# What CMake puts beside the Python files.
INSTALLED = {
    "keras_sparse/install_horovod.py",
    "keras_sparse/native/_build_info.py",
    "keras_sparse/native/_keras_sparse_ops.so",
}
TRY = """
import sys
sys.path += sys.argv[1:]
import keras_sparse
assert keras_sparse.__file__.startswith(sys.argv[1]), keras_sparse.__file__
layer = keras_sparse.layers.Embedding(4, 2)
assert layer([[0, 3]]).shape == (1, 2, 2)
import tempfile
from keras_sparse.native import library
for tier in set(library.LOWER_TIERS) - {"SSDHASH"}:
    with tempfile.TemporaryDirectory() as folder:
        storage = keras_sparse.StorageOption(f"DRAM_{tier}", folder)
        try:
            keras_sparse.EmbeddingVariable(None, 2, storage=storage)
        except ImportError as error:
            assert f"apt-get install lib{tier.lower()}" in str(error), error
        else:
            sys.exit(f"{tier} is there without its library")
"""


def main():
    """Exits with what is wrong, if anything."""
    (wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
    sources = {str(path) for path in pathlib.Path("keras_sparse").rglob("*.py")}
    sources = {name for name in sources if not name.endswith("_build_info.py")}
    with zipfile.ZipFile(wheel) as archive:
        wanted = sources | INSTALLED
        stores = [
            f"keras_sparse/native/_keras_sparse_{tier.lower()}.so"
            for tier in _lower_tiers(archive)
            if tier != "SSDHASH"
        ]
        wanted |= set(stores)
        missing = sorted(wanted - set(archive.namelist()))
        if missing:
            sys.exit(f"{wheel.name} lacks {missing}")
        with tempfile.TemporaryDirectory() as folder:
            archive.extractall(folder)
            for store in stores:
                _take_library_away(pathlib.Path(folder, store))
            paths = [folder, sysconfig.get_path("purelib")]
            subprocess.run([sys.executable, "-I", "-S", "-c", TRY, *paths], check=True)
    print(f"{wheel.name}: {len(wanted)} files, imports.")


def _lower_tiers(archive):
    names: dict = {}
    exec(archive.read("keras_sparse/native/_build_info.py"), names)
    return names["LOWER_TIERS"].split(";")


def _take_library_away(store):
    """Lets a module need a library that no system has, in the place of its own."""
    library = store.stem.replace("_keras_sparse_", "lib").encode() + b".so."
    needed = store.read_bytes()
    if library not in needed:
        sys.exit(f"{store.name} does not need {library.decode()}")
    store.write_bytes(needed.replace(library, library.upper()))


if __name__ == "__main__":
    main()
