"""What is installed on the system is said before, and nothing is where it may not be."""

import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "install_debian_package.sh"


def install(folder, header, user="0", sudo="false", **environment):
    """Runs the script for a user, where `apt-get` and `sudo` write down that they were called."""
    programs = {"id": f"echo {user}", "sudo": f"echo sudo $@ >> {folder}/calls; {sudo}"}
    programs["apt-get"] = f"echo apt-get $@ >> {folder}/calls; echo of apt-get"
    for name, lines in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["sh", SCRIPT, "libx-dev", header, "The X tier"],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "CXX": shutil.which("c++"), **environment},
        capture_output=True,
        text=True,
    )
    calls = folder / "calls"
    return done.returncode, done.stderr, calls.read_text() if calls.exists() else ""


def test_a_header_that_is_there_is_left_alone(tmp_path):
    assert install(tmp_path, "vector") == (0, "", "")


def test_what_is_installed_is_said_first(tmp_path):
    status, said, calls = install(tmp_path, "x/no_such.h")
    first, *_, last = said.splitlines()
    assert "The X tier needs <x/no_such.h>: installing Debian's package libx-dev" in first
    assert "sudo apt-get install libx-dev" in last
    assert calls.startswith("apt-get install -y -q libx-dev")
    assert status == 1  # it has brought no header


@pytest.mark.parametrize(
    ("options", "expected_calls"),
    [
        ({"user": "1000"}, "sudo -n true\n"),  # which would ask for a password
        ({"SYSTEM_PACKAGES": "no"}, ""),
        ({"user": "1000", "sudo": "true", "SYSTEM_PACKAGES": "no"}, ""),
    ],
)
def test_nothing_is_installed_where_it_may_not_be(tmp_path, options, expected_calls):
    status, said, calls = install(tmp_path, "x/no_such.h", **options)
    assert (status, calls) == (1, expected_calls)
    assert said == (
        "The X tier needs <x/no_such.h>. On Debian and Ubuntu: sudo apt-get install libx-dev\n"
    )
