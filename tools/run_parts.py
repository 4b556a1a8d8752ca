#!/usr/bin/env python3
"""Runs the parts of `make test` or `make test-all`, and says how long each took.

    tools/run_parts.py test|test-all

A part that has passed does not run again while its files, compiler, settings and packages are the
same. The user's cache folder remembers that, for other checkouts too.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")

# Parts depend on these files, and on all files in these folders.
STAMPS = (".venv/stamps/store-headers", ".venv/stamps/with-cuda")
CPP = (
    *STAMPS,
    "CMakeLists.txt",
    "Makefile",
    "cmake",
    "ops",
    "pyproject.toml",
    "tests/ops",
    "tools",
)
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "mkdocs.yml", "docs")
ALL = (*CPP, *PAGES, ".clang-tidy", "benchmarks", "examples", "keras_sparse", "tests")
SETTINGS = ("CI", "CXX", "GTEST_FILTER", "MAKEFLAGS", "PYTEST_ADDOPTS", "SANITIZE")

# Packages whose version matters to what tests find.
PACKAGES = ("h5py", "horovod", "hypothesis", "keras", "numpy", "pytest", "tensorflow")
SITE = ".venv/lib/*/site-packages"

# Targets of `make`. Those without files run each time: `make` itself knows which builds are there,
# and checks and hosts depend on more than files.
PARTS = {
    "test": {"build-for-test": (), "test-cpp": CPP, "test-python": ALL, "test-ranks": ALL},
    "test-all": {
        "builds": (),
        "checks": (),
        "test-cpp-long": CPP,
        "test-sanitize": CPP,
        "test-slow": ALL,
        "test-slow-ranks": ALL,
        "test-hosts": (),
        "notebooks": ALL,
    },
}
LEFT_OUT = (
    "Left out: tests that are slow, ranks of three, several hosts, sanitizers, the emulated GPU, "
    "CUDA's compiler, wheels, notebooks, documentation and lint. `make test-all` runs them, and "
    "not again what has passed here."
)


def files_of(names):
    """Yields the files of these names, and those in the folders among them."""
    for name in names:
        path = ROOT / name
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and each.suffix != ".so" and "__pycache__" not in each.parts:
                yield each


def key_of(part, names):
    """The name of a part and of the contents of all that it depends on."""
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name in SETTINGS or name.startswith("KERAS_SPARSE_")
    }
    digest = hashlib.sha256(repr((part, names, sys.version, settings)).encode())
    digest.update(subprocess.run(["c++", "--version"], capture_output=True).stdout)
    installed = [path for name in PACKAGES for path in ROOT.glob(f"{SITE}/{name}-*.dist-info")]
    digest.update(repr([path.name for path in installed]).encode())
    for path in files_of(names):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return f"{part}-{digest.hexdigest()[:20]}"


def run(part, names):
    """Makes a part, unless it has passed: the line of it in the table."""
    key = key_of(part, names) if names else None
    passed = CACHE / "keras_sparse" / "passed" / str(key)
    if passed.exists():
        return f" passed  {part}, with the same files"
    start = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", part], cwd=ROOT)
    line = f"{time.monotonic() - start:5.0f} s  {part}"
    if done.returncode != 0:
        return f"{line} failed"
    if names and key_of(part, names) == key:  # no file was edited meanwhile
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.touch()
    return line


def main(command):
    """Returns the exit status."""
    parts = PARTS["test"] | (PARTS["test-all"] if command == "test-all" else {})
    lines = []
    for part, names in parts.items():
        lines.append(run(part, names))
        if lines[-1].endswith("failed"):
            break
    else:
        if command == "test":
            lines.append(LEFT_OUT)
    print("\n".join(lines), flush=True)
    return lines[-1].endswith("failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
