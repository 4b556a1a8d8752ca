import os
import re
import sys
import threading
import zipfile

import pytest

import install_horovod
from install_horovod import InstallError

WORKS = {"tensorflow": "2.21.0", "horovod": "0.28.1", "nccl": "False"}
LACKS = {"tensorflow": "2.21.0", "error": "No module named 'horovod'"}
KEY = install_horovod.cache_key("2.21.0", install_horovod.build_settings(os.environ))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_wheel(folder):
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("horovod/__init__.py", "# " + "all of Horovod" * 9)
    return wheel


class Machine:
    """A Python with Horovod or without, and what was done to it."""

    def __init__(self, monkeypatch):
        self.found = LACKS
        self.did = []
        for name in ("look", "pip", "download", "compile_wheel"):
            monkeypatch.setattr(install_horovod, name, getattr(self, name))

    def look(self):
        return self.found

    def pip(self, arguments, log, remedy, environ=None):
        if arguments[-1].endswith(".whl"):
            assert zipfile.is_zipfile(arguments[-1])
            self.did.append("install")
            self.found = WORKS

    def download(self, work, log, remedy, environ):
        self.did.append("download")

    def compile_wheel(self, source, target, log, environ):
        self.did.append("compile")
        target.mkdir()
        return make_wheel(target)


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.fixture
def cached(machine):
    """The wheel that a build left in the cache, of a machine that has lost its Horovod since."""
    install_horovod.install()
    machine.found = LACKS
    machine.did.clear()
    (folder,) = install_horovod.cache_folder().iterdir()
    return install_horovod.cached_wheel(folder)


def test_builds_what_the_cache_lacks(machine, capsys):
    install_horovod.install()
    assert machine.did == ["download", "compile", "install"]
    lines = capsys.readouterr().out.splitlines()
    assert all(re.fullmatch(r"\S.* \.\.\. \d+\.\d s", line) for line in lines[:-1])
    assert lines[-1].startswith("Horovod 0.28.1 is installed. Its wheel is ")


def test_leaves_a_horovod_that_works_alone(machine, capsys):
    machine.found = WORKS
    install_horovod.install()
    assert machine.did == []
    assert "Horovod 0.28.1 works with TensorFlow 2.21.0: nothing to do" in capsys.readouterr().out
    assert not install_horovod.cache_folder().exists()


def test_a_horovod_without_nccl_does_not_do_where_nccl_is_asked_for(machine, monkeypatch):
    machine.found = WORKS
    monkeypatch.setenv("HOROVOD_GPU_OPERATIONS", "NCCL")
    with pytest.raises(InstallError, match="must be importable, with what HOROVOD_") as error:
        install_horovod.install()
    assert machine.did == ["download", "compile", "install"]
    assert str(error.value).endswith(f"Received: {WORKS}")


@pytest.mark.parametrize("reason", ["told to", "other settings", "truncated", "flipped"])
def test_builds_a_wheel_anew(reason, machine, cached, monkeypatch):
    if reason == "told to":
        cached.unlink()
        machine.found = WORKS
    if reason == "other settings":
        monkeypatch.setenv("HOROVOD_DEBUG", "1")
    if reason in ("truncated", "flipped"):
        content = bytearray(cached.read_bytes())
        content[50] ^= 1
        cached.write_bytes(content[:40] if reason == "truncated" else content)
    install_horovod.install(force=reason == "told to")
    assert machine.did == ["download", "compile", "install"]


def test_an_interrupted_build_leaves_nothing_in_the_cache(machine, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(install_horovod, "compile_wheel", interrupt)
    with pytest.raises(KeyboardInterrupt):
        install_horovod.install()
    (folder,) = install_horovod.cache_folder().iterdir()
    assert [entry.name for entry in folder.iterdir()] == ["lock"]


def test_takes_the_wheel_from_the_cache_and_clears_what_a_killed_build_left(machine, cached):
    killed = cached.parent / "build-killed"
    killed.mkdir()
    make_wheel(killed)
    install_horovod.install()
    assert machine.did == ["install"]
    assert not killed.exists()


def test_a_second_process_waits_for_the_first(machine, tmp_path, capsys):
    waiting = threading.Thread(target=install_horovod.install)
    with install_horovod.claimed(install_horovod.cache_folder() / KEY):
        waiting.start()
        printed = ""
        while "Waiting for another process that builds the same ..." not in printed:
            waiting.join(timeout=0.01)
            assert waiting.is_alive(), printed
            printed += capsys.readouterr().out
        assert machine.did == []
    waiting.join()
    assert machine.did == ["download", "compile", "install"]


def test_names_a_cache_that_cannot_be_written(machine, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InstallError, match=r"Set XDG_CACHE_HOME to another place.*Not a directory"):
        install_horovod.install()


def test_main_asks_for_tensorflow_without_a_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["install_horovod.py"])
    monkeypatch.setattr(install_horovod, "LOOK", "import no_tensorflow")
    with pytest.raises(SystemExit, match="Error: TensorFlow must be installed") as error:
        install_horovod.main()
    assert str(error.value).endswith(
        f"Run {sys.executable} -m pip install 'tensorflow==2.21.*'. "
        f"Received: ModuleNotFoundError: No module named 'no_tensorflow'"
    )


def test_a_horovod_that_cannot_be_imported_counts_as_none(monkeypatch):
    look = "print('found tensorflow 2.21.0', flush=True)\nimport no_horovod"
    monkeypatch.setattr(install_horovod, "LOOK", look)
    found = install_horovod.look()
    assert found["error"] == "ModuleNotFoundError: No module named 'no_horovod'"
    assert not install_horovod.works(found, {})
