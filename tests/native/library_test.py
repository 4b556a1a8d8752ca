import re
import subprocess
import sys

import keras
import pytest

import keras_sparse.native
from keras_sparse.native import library

CPUINFO = "processor : 0\nmodel name : x\nflags : fpu sse2 avx2 bmi2 f16c fma\n"


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_of_keras_is_an_error_that_says_how_to_choose(backend):
    library.check_backend("tensorflow")
    with pytest.raises(ImportError, match=rf"KERAS_BACKEND=tensorflow.*Received.*'{backend}'"):
        library.check_backend(backend)


def test_importing_the_package_checks_the_backend(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="KERAS_BACKEND=tensorflow"):
        library._load()


def test_another_tensorflow_or_processor_is_an_error_and_a_patch_release_is_none():
    library.check_tensorflow("2.21.0", "2.21.3")
    with pytest.raises(ImportError, match=r"compiled for tensorflow 2\.21\.0.*tensorflow 2\.22\.0"):
        library.check_tensorflow("2.21.0", "2.22.0")
    library.check_processor("x86-64-v3", CPUINFO)
    library.check_processor("x86-64", "flags : sse2")
    library.check_processor("x86-64-v3", "no flags in this file")
    with pytest.raises(ImportError, match=r"processor with avx2, fma.*KERAS_SPARSE_MARCH=x86-64"):
        library.check_processor("x86-64-v3", CPUINFO.replace("avx2", "").replace("fma", ""))


def test_sources_without_native_ops_are_an_error_that_says_how_to_install_them(monkeypatch):
    monkeypatch.delattr(keras_sparse.native, "_build_info")
    monkeypatch.setitem(sys.modules, "keras_sparse.native._build_info", None)
    with pytest.raises(ImportError, match=r"installed with its native ops. Run `pip install \.`"):
        library._load()


def test_functions_of_cuda_are_those_within_the_library():
    # TensorFlow's library has others by the same names, which stand in for another version.
    listed = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", library.library_path],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "TF_" in listed.stdout or "tensorflow" in listed.stdout
    assert not re.findall(r" U (?:__)?cuda\w+", listed.stdout)
