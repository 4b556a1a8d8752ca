"""Checks a built wheel: every Python file is in it, and it imports away from the checkout.

The import runs under `python -S`, where the editable installation's import hook is not at work.
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
    "keras_sparse/ops/_build_info.py",
    "keras_sparse/ops/_keras_sparse_ops.so",
}
TRY = """
import sys
sys.path += sys.argv[1:]
import keras_sparse
assert keras_sparse.__file__.startswith(sys.argv[1]), keras_sparse.__file__
layer = keras_sparse.layers.Embedding(4, 2)
assert layer([[0, 3]]).shape == (1, 2, 2)
"""


def main():
    """Exits with what is wrong, if anything."""
    (wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
    sources = {str(path) for path in pathlib.Path("keras_sparse").rglob("*.py")}
    sources = {name for name in sources if not name.endswith("_build_info.py")}
    with zipfile.ZipFile(wheel) as archive:
        wanted = sources | INSTALLED
        missing = sorted(wanted - set(archive.namelist()))
        if missing:
            sys.exit(f"{wheel.name} lacks {missing}")
        with tempfile.TemporaryDirectory() as folder:
            archive.extractall(folder)
            paths = [folder, sysconfig.get_path("purelib")]
            subprocess.run([sys.executable, "-I", "-S", "-c", TRY, *paths], check=True)
    print(f"{wheel.name}: {len(wanted)} files, imports.")


if __name__ == "__main__":
    main()
