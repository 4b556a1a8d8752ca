import pathlib
import subprocess
import sys
import tomllib

import pytest

from keras_sparse.utils.supported_versions import check_version
from keras_sparse.utils.supported_versions import SUPPORTED

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("package", "version"),
    [("keras", "3.11.3"), ("keras", "3.16.0"), ("tensorflow", "2.19.1"), ("tensorflow", "2.22.0")],
)
def test_a_version_outside_of_the_range_is_an_error_with_a_remedy(package, version):
    first, last = SUPPORTED[package]
    words = rf'{package} {first} to {last}.*"{package}=={last}\.\*".*Received: {package} {version}$'
    with pytest.raises(ImportError, match=words):
        check_version(package, version)


@pytest.mark.parametrize("version", ["3.12.0", "3.15.9", "3.14.0rc1"])
def test_each_patch_release_within_the_range_is_taken(version):
    check_version("keras", version)


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(("package", "version"), [("keras", "3.11.3"), ("tensorflow", "3.0.0")])
def test_importing_the_package_checks_versions_before_all_else(package, version):
    # Modules of Keras that others import are gone, as they may be in another version.
    script = (
        f"import sys, keras, tensorflow; sys.modules['{package}'].__version__ = '{version}'\n"
        "sys.modules['keras.src.saving'] = None\nimport keras_sparse"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"Received: {package} {version}" in run.stderr.splitlines()[-1]


def test_the_build_declares_the_same_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ranges = {}
    for package, (first, last) in SUPPORTED.items():
        major, minor = last.split(".")
        ranges[package] = f"{package}>={first},<{major}.{int(minor) + 1}"
    assert {*ranges.values()} <= {*project["project"]["dependencies"]}
    assert ranges["tensorflow"] in project["build-system"]["requires"]
    (gpu,) = project["project"]["optional-dependencies"]["gpu"]
    assert gpu.replace("[and-cuda]", "") == ranges["tensorflow"]
    cmake = (ROOT / "cmake/python_tensorflow.cmake").read_text()
    first, last = SUPPORTED["tensorflow"]
    assert f'set(first_tensorflow "{first}")\nset(last_tensorflow "{last}")' in cmake
    makefile = (ROOT / "Makefile").read_text()
    ends = ("-".join(SUPPORTED[name][end] for name in ("keras", "tensorflow")) for end in (0, 1))
    assert f"\nVERSIONS := {' '.join(ends)}\n" in makefile
