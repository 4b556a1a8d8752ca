import io
import pathlib
import re
import tarfile

import pytest

import install_horovod
from install_horovod import InstallError


@pytest.fixture
def log(tmp_path):
    return tmp_path / "install.log"


# --- Which builds share a wheel ------------------------------------------------------------------


SETTINGS = {"HOROVOD_B": "1", "HOROVOD_A": "2"}


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("tensorflow", "2.21.1"),
        ("HOROVOD_B", "2"),
        ("HOROVOD_C", "1"),
        ("VERSION", "0.29.0"),
        ("EDITS", ()),
        ("sysconfig.get_config_var", lambda _: "cpython-399"),
    ],
)
def test_key_tells_builds_apart(change, value, monkeypatch):
    before = install_horovod.cache_key("2.21.0", SETTINGS)
    assert re.fullmatch(r"0\.28\.1-tensorflow-2\.21\.0-[0-9a-f]{16}", before)
    assert install_horovod.cache_key("2.21.0", dict(sorted(SETTINGS.items()))) == before
    version, settings = "2.21.0", SETTINGS
    if change == "tensorflow":
        version = value
    elif change.startswith("HOROVOD"):
        settings = {**SETTINGS, change: value}
    else:
        monkeypatch.setattr(f"install_horovod.{change}", value)
    assert install_horovod.cache_key(version, settings) != before


def test_builds_for_tensorflow_and_gloo_unless_the_user_sets_something_else():
    assert install_horovod.build_settings({"PATH": "/bin"}) == {
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
    }
    user = {"HOROVOD_WITH_MPI": "1", "HOROVOD_WITH_GLOO": "0", "HOROVOD_GPU_OPERATIONS": "NCCL"}
    settings = install_horovod.build_settings(user)
    assert user.items() <= settings.items()
    assert "HOROVOD_WITHOUT_MPI" not in settings


def test_the_caches_of_the_user_hold_the_wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert install_horovod.cache_folder() == tmp_path / "cache" / "keras_sparse" / "horovod"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert install_horovod.cache_folder() == tmp_path / ".cache" / "keras_sparse" / "horovod"


# --- Edits of the source -------------------------------------------------------------------------


def test_an_edit_changes_nothing_but_its_text():
    text = "list(one)\nlist(two)\nlist(three)\n"
    assert install_horovod.edit(text, "X", "list(two)\n", "") == "list(one)\nlist(three)\n"


@pytest.mark.parametrize("times", [0, 2])
def test_refuses_to_edit_a_file_that_is_not_the_one_it_knows(times):
    with pytest.raises(InstallError, match=rf"X of Horovod .*'list\(two\)' once.*: {times} times"):
        install_horovod.edit("list(one)\n" + "list(two)\n" * times, "X", "list(two)", "")


# --- Downloading and building --------------------------------------------------------------------


def test_refuses_an_archive_with_another_hash_before_code_of_it_runs(tmp_path, log, monkeypatch):
    ran = tmp_path / "ran"
    index = tmp_path / "index"
    index.mkdir()
    with tarfile.open(index / "horovod-0.28.1.tar.gz", "w:gz") as archive:
        setup = tarfile.TarInfo("horovod-0.28.1/setup.py")
        code = f"open({str(ran)!r}, 'w')".encode()
        setup.size = len(code)
        archive.addfile(setup, io.BytesIO(code))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(InstallError, match="DO NOT MATCH THE HASHES") as error:
        install_horovod.download(tmp_path, log, "REMEDY", None)
    assert f"Expected sha256 {install_horovod.SHA256} Got" in str(error.value)
    assert not ran.exists()


def test_says_what_to_do_without_a_package_index(tmp_path, log, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(InstallError, match=r"pip install must succeed\. Run again with") as error:
        install_horovod.build_wheel(tmp_path, {}, log)
    assert f"or bring {tmp_path} from a machine with the same Python" in str(error.value)
    assert "Received: ERROR: Could not find a version that satisfies" in str(error.value)
    assert list(tmp_path.glob("build-*")) == []


@pytest.mark.parametrize("compiler", [None, "my-own-c++ -O3"])
def test_asks_for_a_compiler(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    if compiler:
        monkeypatch.setenv("CXX", compiler)
    received = r"my-own-c\+\+" if compiler else r"c\+\+ or g\+\+ or clang\+\+"
    with pytest.raises(InstallError, match=rf"apt-get install g\+\+ make.*no {received} in PATH"):
        install_horovod.check_compiler()


def test_a_failed_build_shows_the_end_of_its_log(tmp_path, log):
    source = tmp_path / "source"
    source.mkdir()
    (source / "setup.py").write_text(
        "for n in range(99):\n    print('line', n)\nraise SystemExit('no such header')\n"
    )
    with pytest.raises(InstallError, match="Horovod must compile") as error:
        install_horovod.compile_wheel(source, tmp_path / "wheel", log, None)
    assert str(error.value).endswith("no such header")
    assert f"{log} has all that was said. Received: exit status 1" in str(error.value)
    assert "line 98" in str(error.value)
    assert "line 9\n" not in str(error.value)
    assert "line 9\n" in log.read_text()


def test_the_build_finds_its_tools_first(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("MAKEFLAGS", " --jobserver-auth=3,4")
    monkeypatch.setenv("CMAKE_GENERATOR", "Ninja")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    tools = pathlib.Path("/tools")
    environ = install_horovod.build_environ({"HOROVOD_GPU_OPERATIONS": "NCCL"}, tools)
    assert environ["PATH"] == "/tools/bin:/bin"
    assert environ["PYTHONPATH"] == "/tools"
    assert environ["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert re.fullmatch(r"-j\d+", environ["MAKEFLAGS"])
    assert "CMAKE_GENERATOR" not in environ
