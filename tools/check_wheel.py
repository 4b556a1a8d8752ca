"""Checks a built wheel: every Python file is in it, and it imports away from the checkout.

The import runs under `python -S`, where the editable installation's import hook is not at work.
Tiers whose library is in the wheel work. One that needs a library of the system is an error without
it, for which its name is changed, and then works with it.
"""

import pathlib
import re
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
MAY_BE_WITHIN = {"libleveldb", "libsnappy"}  # as their licences let everyone pass them on
TRY = """
import sys
sys.path += sys.argv[1:3]
import keras_sparse
assert keras_sparse.__file__.startswith(sys.argv[1]), keras_sparse.__file__
layer = keras_sparse.layers.Embedding(4, 2)
assert layer([[0, 3]]).shape == (1, 2, 2)
import pathlib, tempfile
from keras_sparse.native import library
def num_rows(tier):
    with tempfile.TemporaryDirectory() as folder:
        storage = keras_sparse.StorageOption(f"DRAM_{tier}", folder)
        table = keras_sparse.EmbeddingVariable(None, 2, storage=storage)
        table.import_([7], [[1.0, 2.0]])
        return table.num_rows
for whole in map(pathlib.Path, sys.argv[3:]):
    tier = whole.stem.partition(".")[0].removeprefix("_keras_sparse_").upper()
    try:
        sys.exit(f"{tier} works without its library: {num_rows(tier)}")
    except ImportError as error:
        assert f"apt-get install lib{tier.lower()}" in str(error), error
    whole.rename(whole.with_suffix(""))
for tier in set(library.LOWER_TIERS) - {"SSDHASH"}:
    assert num_rows(tier) == 1, tier
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
        libraries = re.findall(rf"^{LIBRARIES}(\w+)", "\n".join(archive.namelist()), re.MULTILINE)
        if others := set(libraries) - MAY_BE_WITHIN:
            sys.exit(f"{wheel.name} has libraries that it must not have: {sorted(others)}")
        with tempfile.TemporaryDirectory() as folder:
            archive.extractall(folder)
            of_system = [
                _take_library_away(pathlib.Path(folder, store))
                for store in stores
                if _library(store) not in libraries
            ]
            arguments = [folder, sysconfig.get_path("purelib"), *map(str, of_system)]
            subprocess.run([sys.executable, "-I", "-S", "-c", TRY, *arguments], check=True)
    print(f"{wheel.name}: {len(wanted)} files, imports, has {sorted(libraries)} in it.")


def _lower_tiers(archive):
    names: dict = {}
    exec(archive.read("keras_sparse/native/_build_info.py"), names)
    return names["LOWER_TIERS"].split(";")


def _library(store):
    return pathlib.Path(store).stem.replace("_keras_sparse_", "lib")


def _take_library_away(store):
    """Lets a module need a library that no system has. Returns a copy of it as it was."""
    whole = store.with_name(f"{store.name}.whole")
    library = _library(store).encode() + b".so."
    needed = store.read_bytes()
    if library not in needed:
        sys.exit(f"{store.name} does not need {library.decode()}")
    store.rename(whole)
    store.write_bytes(needed.replace(library, library.upper()))
    return whole


if __name__ == "__main__":
    main()
