"""Refuses versions of Keras and TensorFlow with which the package was not tested."""

import keras
import tensorflow as tf

# Of each the first release and the last one; pyproject.toml and cmake/python_tensorflow.cmake have
# the same.
SUPPORTED = {"keras": ("3.12", "3.15"), "tensorflow": ("2.20", "2.21")}


def check_version(package, version):
    """Raises ImportError unless a version is in the range that `make test-versions` tests.

    Args:
        package: String, a key of `SUPPORTED`.
        version: String such as `"3.15.1"`. All patch releases are in the range.
    """
    first, last = SUPPORTED[package]
    if not _release(first) <= _release(version) <= _release(last):
        raise ImportError(
            f"keras_sparse must run with {package} {first} to {last}, as it uses names that are "
            f'private and may differ in others. Install one of these: `pip install "{package}=='
            f'{last}.*"`. Received: {package} {version}'
        )


def _release(version):
    return tuple(int(number) for number in version.split(".")[:2])


check_version("keras", keras.__version__)
check_version("tensorflow", tf.__version__)
