"""Checks a built wheel: every Python file is in it, and it imports away from the checkout.

The import runs under `python -S`, where the editable installation's import hook is not at work.
A wheel for other machines has the libraries in it that lower tiers need, and these tiers work. For
another wheel they are absent: their names are changed.
"""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

# What there is beside the Python files, most of it from CMake.
INSTALLED = {
    "keras_sparse/install_horovod.py",
    "keras_sparse/native/_build_info.py",
    "keras_sparse/native/_keras_sparse_ops.so",
    "keras_sparse/py.typed",
}
LIBRARIES = "keras_sparse.libs/"  # where auditwheel puts them
TRY = """
import sys
sys.path += sys.argv[1:3]
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
            table = keras_sparse.EmbeddingVariable(None, 2, storage=storage)
            table.import_([7], [[1.0, 2.0]])
            found = table.num_rows
            del table
        except ImportError as error:
            found = f"apt-get install lib{tier.lower()}" in str(error) and "absent"
        assert found == (1 if sys.argv[3] == "with libraries" else "absent"), (tier, found)
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
        has_libraries = any(name.startswith(LIBRARIES) for name in archive.namelist())
        with tempfile.TemporaryDirectory() as folder:
            archive.extractall(folder)
            for store in () if has_libraries else stores:
                _take_library_away(pathlib.Path(folder, store))
            how = "with libraries" if has_libraries else "without libraries"
            arguments = [folder, sysconfig.get_path("purelib"), how]
            subprocess.run([sys.executable, "-I", "-S", "-c", TRY, *arguments], check=True)
    print(f"{wheel.name}: {len(wanted)} files, imports {how}.")


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
