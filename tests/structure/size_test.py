"""Files and folders are short, and what a class does is in the file of its name."""

import collections
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]

FOLDERS = ("benchmarks", "examples", "keras_sparse", "ops", "tests", "tools")

# Aim at 60 to 300 lines. Past 450 a file is split by reason to change.
MOST_LINES = 450
MOST_UNITS = 24

# A script that runs by itself, with the package and without it.
LONG_FILES = {"tools/install_horovod.py"}

# Each of their files is run by itself, and asks one question.
LONG_FOLDERS = {"benchmarks", "tests/distribute/ranked"}

# What a class does for one purpose, or on one system, apart from the rest of it.
PARTS_OF_A_CLASS = {
    "ops/core/files/posix_file_system.cc",
    "ops/core/stores/ssd/ssd_compaction.cc",
    "ops/core/stores/ssd/ssd_links.cc",
}


@functools.cache
def sources():
    """The text of each source file by its path in the repository."""
    suffixes = (".py", ".h", ".cc", ".cu")
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    texts = {p.relative_to(ROOT): p.read_text() for p in paths if p.suffix in suffixes}
    assert len(texts) > 500
    return texts


def test_files_are_short():
    numbers = {path: text.count("\n") for path, text in sources().items()}
    long = {str(path): n for path, n in numbers.items() if n > MOST_LINES}
    assert long.keys() <= LONG_FILES, long


def test_folders_have_few_units():
    units = collections.defaultdict(set)
    for path in sources():
        units[str(path.parent)].add(path.stem)
    full = {folder: len(stems) for folder, stems in units.items() if len(stems) > MOST_UNITS}
    assert full.keys() <= LONG_FOLDERS, full


@functools.cache
def homes():
    """The `.cc` files that methods of a class may be in, by the name of the class."""
    found = collections.defaultdict(set)
    for path in cpp_files():
        for name in re.findall(r"\b(?:class|struct) (\w+)[^;(){}]*\{", sources()[path]):
            found[name].add(path.with_suffix(".cc"))
    return found


def cpp_files():
    return [path for path in sources() if path.parts[0] == "ops"]


def test_the_methods_of_a_class_are_in_the_file_of_its_header():
    elsewhere = set()
    for path in cpp_files():
        if path.suffix == ".cc" and str(path) not in PARTS_OF_A_CLASS:
            for name in re.findall(
                r"(?m)^(?![#/\s])[^(=;\n]*?\b(\w+)::(?:\w+::)*~?\w+\(", sources()[path]
            ):
                if name in homes() and path not in homes()[name]:
                    elsewhere.add(f"{name} in {path}")
    assert elsewhere == set()


def test_a_file_without_a_header_registers_what_it_has_or_says_whose_it_is():
    silent = []
    for path in cpp_files():
        text = sources()[path]
        if path.suffix == ".h" or path.with_suffix(".h") in sources():
            continue
        owner = re.match(r"(?:// (\w+))?", text)[1]
        is_said = owner in homes() or re.search(rf"(?m)^[^/\n]*\b{owner}\(", text)
        if not is_said and not re.search(r"\b(REGISTER_OP\(|kRegistered\b)", text):
            silent.append(str(path))
    assert silent == []
