"""Builds Horovod for the TensorFlow of this Python, and installs it.

    python tools/install_horovod.py             from a checkout
    python -m keras_sparse install-horovod      where keras_sparse is installed

The released source of Horovod does not compile with TensorFlow 2.21 because of one file, which
serves XLA and is at work only where `HOROVOD_ENABLE_XLA_OPS` is set. The release is downloaded with
pip, built without that file, and the wheel kept in `$XDG_CACHE_HOME`, or `~/.cache`, for the next
time. What the build needs is installed beside it, not into this Python. Variables named `HOROVOD_*`
reach the build.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
# What is changed in the release: file, text that is there once, its replacement.
EDITS = (
    # The file that does not compile, out of the list of those that are compiled.
    (
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
    ),
    # In builds for GPUs: a function that TensorFlow no longer has. A template, for where it stands
    # the class Stream is not defined yet.
    (
        "horovod/tensorflow/mpi_ops.cc",
        "GpuStreamHandle AsGpuStreamValue(Stream* stream);\n",
        "template <class S> GpuStreamHandle AsGpuStreamValue(S* stream) {\n"
        "  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\n"
        "}\n",
    ),
    # A third of the compile time went into Gloo for another C++ standard, which nothing links, and
    # nine tenths of the wheel into what debuggers read.
    (
        "CMakeLists.txt",
        "add_subdirectory(third_party/gloo)\n",
        "add_subdirectory(third_party/gloo EXCLUDE_FROM_ALL)\n",
    ),
    # Another third goes into headers that each of many short files reads: several are compiled as
    # one, but for two files that go with no other. Not where there are files for MPI or GPUs, too.
    (
        "third_party/gloo/gloo/CMakeLists.txt",
        "set(GLOO_SRCS)\n",
        "if(NOT USE_MPI)\n"
        "  set(CMAKE_UNITY_BUILD ON)\n"
        '  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/allreduce_local.cc"\n'
        "                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)\n"
        "endif()\n"
        "set(GLOO_SRCS)\n",
    ),
    (
        "horovod/tensorflow/CMakeLists.txt",
        "# Create library\n",
        "if(NOT HAVE_MPI AND NOT HAVE_CUDA AND NOT HAVE_ROCM AND NOT HAVE_CCL)\n"
        "  set(CMAKE_UNITY_BUILD ON)\n"
        '  set_source_files_properties("${PROJECT_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc"\n'
        "                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)\n"
        "endif()\n"
        "# Create library\n",
    ),
    (
        "CMakeLists.txt",
        'string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO',
        'string(REPLACE "-O2 -g" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO',
    ),
    # Where ranks are more than cores, the thread in which Gloo waits for messages asked for a lock
    # without a pause while the lock's holder waited for that core.
    (
        "third_party/gloo/gloo/transport/tcp/pair.cc",
        "  if (!lock) {\n    return;\n",
        "  if (!lock) {\n    usleep(50);\n    return;\n",
    ),
)
# CMake 4 no longer reads the build files of a library that Horovod brings along.
BUILD_TOOLS = ("cmake>=3.25,<4", "setuptools>=77,<85", "packaging")
RUN_TIME = ("cloudpickle", "packaging", "psutil", "pyyaml")
# Set to 1 for the build, unless the user has a word to say on the opposite.
PARTS = {
    "HOROVOD_WITH_TENSORFLOW": "HOROVOD_WITHOUT_TENSORFLOW",
    "HOROVOD_WITH_GLOO": "HOROVOD_WITHOUT_GLOO",
    "HOROVOD_WITHOUT_MPI": "HOROVOD_WITH_MPI",
    "HOROVOD_WITHOUT_MXNET": "HOROVOD_WITH_MXNET",
    "HOROVOD_WITHOUT_PYTORCH": "HOROVOD_WITH_PYTORCH",
}

LOOK = """
import tensorflow
print("found tensorflow", tensorflow.__version__, flush=True)
import horovod
import horovod.tensorflow
print("found nccl", bool(horovod.tensorflow.nccl_built()))
print("found horovod", horovod.__version__, flush=True)
"""
BUILD = """
import sys
from setuptools import build_meta
build_meta.__legacy__.build_wheel(sys.argv[1])
"""


class InstallError(RuntimeError):
    """Says why Horovod could not be installed, and what to do."""


def main():
    """Exits with what is wrong, if anything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--force", action="store_true", help="also where Horovod works already")
    try:
        install(parser.parse_args().force)
    except InstallError as error:
        sys.exit(f"Error: {error}")


def install(force=False):
    """Leaves a Horovod that works with the installed TensorFlow, as `HOROVOD_*` ask for it."""
    settings = build_settings(os.environ)
    with stage("Looking for TensorFlow and Horovod"):
        found = look()
    if not force and works(found, settings):
        print(
            f"Horovod {found['horovod']} works with TensorFlow {found['tensorflow']}: nothing to "
            f"do. --force installs it all the same."
        )
        return
    with claimed(cache_folder() / cache_key(found["tensorflow"], settings)) as folder:
        log = folder / "install.log"
        log.unlink(missing_ok=True)
        wheel = cached_wheel(folder) or build_wheel(folder, settings, log)
        install_wheel(wheel, log)
    with stage("Importing it"):
        found = look()
    if not works(found, settings):
        raise InstallError(
            f"Horovod must be importable, with what HOROVOD_* asks for, once it is installed. "
            f"Delete {folder} and run again to build it anew. Received: {found}"
        )
    print(f"Horovod {found['horovod']} is installed. Its wheel is {wheel}")


def look():
    """Returns by name what a new process could import: versions, and the error that ended it."""
    # -P: a folder named horovod where this is run is not the package.
    command = [sys.executable, "-P", "-c", LOOK]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("found ")]
    found = {name: what for _, name, what in lines}
    if "horovod" not in found:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        found["error"] = said[-1] if said else f"exit status {done.returncode}"
    if "tensorflow" not in found:
        raise InstallError(
            f"TensorFlow must be installed, for Horovod is built for its version. Run "
            f"{sys.executable} -m pip install 'tensorflow==2.21.*'. Received: {found['error']}"
        )
    return found


def works(found, settings):
    """Returns whether there is a Horovod, and one that takes GPUs to NCCL if that is asked for."""
    nccl = settings.get("HOROVOD_GPU_OPERATIONS") == "NCCL"
    return "horovod" in found and (found["nccl"] == "True" or not nccl)


# --- The cache -----------------------------------------------------------------------------------


def build_settings(environ):
    """The `HOROVOD_*` variables of a build: the user's, and ours where they leave it open."""
    settings = {name: value for name, value in environ.items() if name.startswith("HOROVOD_")}
    parts = {name: "1" for name, opposite in PARTS.items() if opposite not in settings}
    return {**parts, **settings}


def cache_folder():
    """Returns the folder that wheels of Horovod are kept in."""
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(caches) / "keras_sparse" / "horovod"


def cache_key(tensorflow, settings):
    """The name of the folder for all builds that may share a wheel.

    Args:
        tensorflow: String. TensorFlow's version.
        settings: Dict. The `HOROVOD_*` variables of the build.
    """
    python = sysconfig.get_config_var("SOABI")
    facts = [VERSION, EDITS, BUILD_TOOLS, tensorflow, python, settings]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{VERSION}-tensorflow-{tensorflow}-{digest[:16]}"


@contextlib.contextmanager
def claimed(folder):
    """Makes the folder and holds it against other processes; clears what killed ones left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as error:
        raise InstallError(
            f"{folder} must be a folder to write into. Set XDG_CACHE_HOME to another place. "
            f"Received: {error}"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with stage("Waiting for another process that builds the same"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob("build-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield folder


def cached_wheel(folder):
    """The wheel in the folder, or None. A damaged one counts as none."""
    for wheel in folder.glob("*.whl"):
        with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(wheel) as archive:
            if archive.testzip() is None:
                return wheel
    return None


# --- The build -----------------------------------------------------------------------------------


def build_wheel(folder, settings, log):
    """Builds the wheel and moves it into the folder as its last step."""
    check_compiler()
    remedy = (
        f"Run again with a connection, or bring {folder} from a machine with the same Python and "
        f"TensorFlow where this was run"
    )
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as temporary:
        work = pathlib.Path(temporary)
        environ = build_environ(settings, work / "tools")
        with stage("Installing what the build needs"):
            target = ["--no-user", "--target", str(work / "tools")]
            pip(["install", *target, *BUILD_TOOLS], log, remedy)
        with stage(f"Downloading the source of Horovod {VERSION}"):
            source = download(work, log, remedy, environ)
        with stage("Compiling it, which takes a minute or two"):
            wheel = compile_wheel(source, work / "wheel", log, environ)
        return wheel.replace(folder / wheel.name)


def check_compiler():
    """Asks for what pip cannot install."""
    compilers = shlex.split(os.environ.get("CXX", ""))[:1] or ["c++", "g++", "clang++"]
    for names in (compilers, ["make"]):
        if not any(map(shutil.which, names)):
            raise InstallError(
                f"A C++ compiler and make must be installed, for Horovod is compiled here. On "
                f"Debian and Ubuntu: apt-get install g++ make. Received: no {' or '.join(names)} "
                f"in PATH"
            )


def build_environ(settings, tools):
    """The environment of the build, in which `tools` come before what is installed."""
    environ = {**os.environ, **settings}
    # Make's own, where this is run by make, and a generator that is not make.
    for name in ("CMAKE_GENERATOR", "MAKELEVEL", "MFLAGS"):
        environ.pop(name, None)
    environ["MAKEFLAGS"] = f"-j{len(os.sched_getaffinity(0))}"
    for name, folder in (("PATH", tools / "bin"), ("PYTHONPATH", tools)):
        environ[name] = os.pathsep.join(filter(None, (str(folder), environ.get(name))))
    return environ


def download(work, log, remedy, environ):
    """Returns the folder of the unpacked release, edited."""
    requirements = work / "requirements.txt"
    requirements.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n")
    # pip has the archive describe itself, by code in it, but not before its hash was found right.
    options = ["--no-deps", "--no-binary=horovod", "--no-build-isolation", "--require-hashes"]
    where = ["--dest", str(work), "--requirement", str(requirements)]
    pip(["download", *options, *where], log, remedy, environ)
    with tarfile.open(work / f"horovod-{VERSION}.tar.gz") as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(work, **safe)
    source = work / f"horovod-{VERSION}"
    for name, old, new in EDITS:
        path = source / name
        path.write_text(edit(path.read_text(), name, old, new))
    return source


def edit(text, name, old, new):
    """The text of the file called `name` with `old` replaced, which must be there once."""
    if text.count(old) != 1:
        raise InstallError(
            f"{name} of Horovod {VERSION} must have the text {old!r} once. Received: "
            f"{text.count(old)} times"
        )
    return text.replace(old, new)


def compile_wheel(source, target, log, environ):
    """Compiles the unpacked source and returns the path of its wheel."""
    target.mkdir()
    done = run([sys.executable, "-u", "-c", BUILD, str(target)], log, environ, cwd=source)
    if done.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise InstallError(
            f"Horovod must compile. {log} has all that was said. "
            f"Received: exit status {done.returncode} after\n{last}"
        )
    (wheel,) = target.glob("*.whl")
    return wheel


# --- pip -----------------------------------------------------------------------------------------


def install_wheel(wheel, log):
    """Installs the wheel in the place of any other Horovod, and what it needs at run time."""
    with stage("Installing what Horovod needs"):
        pip(["install", *RUN_TIME], log, "Install these by hand, or run again with a connection")
    with stage(f"Installing {wheel.name}"):
        here = "It is to be installed into a Python that you may change, best a virtual environment"
        pip(["install", "--no-deps", "--force-reinstall", str(wheel)], log, here)


def pip(arguments, log, remedy, environ=None):
    """Runs pip, as the user configured it, and raises its own words if it fails."""
    if importlib.util.find_spec("pip") is None:
        raise InstallError(f"pip must be installed. Run {sys.executable} -m ensurepip")
    start = log.stat().st_size if log.exists() else 0
    done = run([sys.executable, "-m", "pip", *arguments, "--retries", "2"], log, environ)
    if done.returncode != 0:
        said = log.read_bytes()[start:].decode(errors="replace")
        words = " ".join(said[max(said.find("ERROR:"), 0) :].split()[:80])
        raise InstallError(f"pip {arguments[0]} must succeed. {remedy}. Received: {words}")


def run(command, log, environ, cwd=None):
    """Runs a command whose output goes to the log."""
    with open(log, "a") as output:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=cwd,
            check=False,
        )


@contextlib.contextmanager
def stage(what):
    """Prints a line for a stage: what it does, and once it is done its seconds."""
    print(f"{what} ...", end="", flush=True)
    start = time.monotonic()
    try:
        yield
    finally:
        print(f" {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
