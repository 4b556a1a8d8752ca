"""Disks that are full before long, for the tests of what is written to them."""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import pytest

_TESTS = pathlib.Path(__file__).parents[1]
_OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]


@contextlib.contextmanager
def files_of_at_most(num_bytes):
    """As on a full disk, a write that makes a file longer fails, in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_with_mounts(script, folder, *arguments):
    """Runs a script, which is given these arguments, in a process that may `mount`.

    Skips the test where that is not allowed.
    """
    mount = [*_OWN_MOUNTS, "mount", "-t", "tmpfs", "none", str(folder)]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk, not even in a namespace of their own")
    command = [*_OWN_MOUNTS, sys.executable, "-c", script, str(folder), *arguments]
    paths = [
        *(str(_TESTS / name) for name in ("support", "saving/checkpoint", "storage")),
        *filter(None, sys.path),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr


def mount(path, size):
    """Makes a folder that is a disk of this size, such as "600k"."""
    os.mkdir(path)
    subprocess.check_call(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path])


def resize(path, size):
    """Makes a disk larger or smaller."""
    subprocess.check_call(["mount", "-o", f"remount,size={size}", path])
