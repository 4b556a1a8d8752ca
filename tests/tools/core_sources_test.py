"""A source is looked at again if it has changed, or a header that it includes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "core_sources.py"
FILES = {
    "ops/core/base/a.h": "",
    "ops/core/base/b.h": '#include "ops/core/base/a.h"\n',
    "ops/core/base/a.cc": '#include "ops/core/base/a.h"\n',
    "ops/core/base/b.cc": '#include "ops/core/base/b.h"\n',
    "ops/core/base/c.cc": "#include <vector>\n",
    ".clang-tidy": "",
    "README.md": "",
}
A, B, C = SOURCES = [file for file in FILES if file.endswith(".cc")]


def git(folder, *arguments):
    # Without the settings of whoever runs the tests.
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *names, *arguments], cwd=folder, env=environment, check=True)


def change(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(FILES.get(file, "") + "// changed\n")


def commit(folder, *files):
    change(folder, *files)
    git(folder, "add", *files)
    git(folder, "commit", "-q", "-m", "change")


@pytest.fixture
def checkout(tmp_path):
    """A folder with one commit of all files."""
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", *FILES)
    git(tmp_path, "commit", "-q", "-m", "all")
    (tmp_path / "build").mkdir()
    commands = [{"file": str(tmp_path / source)} for source in SOURCES]
    (tmp_path / "build/compile_commands.json").write_text(json.dumps(commands))
    return tmp_path


def sources(folder, *options):
    command = [sys.executable, SCRIPT, "build", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_all_are_printed_without_the_option(checkout):
    assert sources(checkout) == SOURCES
    # Nothing has changed without an earlier commit, or without git.
    assert sources(checkout, "--changed") == []
    (checkout / ".git").rename(checkout / "no_git")
    assert sources(checkout, "--changed") == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("ops/core/base/c.cc", [C]),
        ("ops/core/base/b.h", [B]),
        ("ops/core/base/a.h", [A, B]),
        (".clang-tidy", SOURCES),
        ("README.md", []),
    ],
)
def test_what_includes_a_changed_file_is_looked_at(checkout, changed, expected):
    change(checkout, changed)
    assert sources(checkout, "--changed") == expected
    commit(checkout, changed)
    assert sources(checkout, "--changed") == expected


def test_a_branch_is_compared_with_where_it_left_main(checkout):
    commit(checkout, A)
    git(checkout, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert sources(checkout, "--changed") == [A]  # on main itself, the last commit
    commit(checkout, B)
    commit(checkout, C)
    assert sources(checkout, "--changed") == [B, C]


def test_a_header_of_a_new_name_counts_by_both(checkout):
    commit(checkout, "README.md")
    (checkout / "ops/core/base/a.h").rename(checkout / "ops/core/base/d.h")
    (checkout / A).write_text('#include "ops/core/base/d.h"\n')
    assert sources(checkout, "--changed") == [A, B]
