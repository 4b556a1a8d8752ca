"""Loads the native ops, after checking that they fit this TensorFlow and this processor."""

import ctypes
import pathlib
import platform

import keras
import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils

_LIBRARY = "_keras_sparse_ops.so"

# What a processor must have for code compiled with `-march` of this name.
_NEEDED_CPU_FLAGS = {
    "x86-64-v3": ("avx2", "bmi2", "f16c", "fma"),
    "x86-64-v4": ("avx2", "bmi2", "f16c", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
}

# These leave the tables as they are: inside a `tf.function` they wait for updates, not for each
# other.
_READ_ONLY_OPS = (
    "CatchUp",
    "Export",
    "ExportHistory",
    "ExportRaw",
    "ExportVocabulary",
    "FindTokens",
    "HaveRows",
    "Lookup",
    "LookupWeightsGrad",
    "ReadRows",
    "Size",
    "SnapshotVersions",
    "Stats",
    "TierStats",
)


def check_backend(backend):
    """Raises ImportError unless Keras runs on TensorFlow.

    Args:
        backend: String. The name of Keras' backend.
    """
    if backend != "tensorflow":
        raise ImportError(
            "keras_sparse must run on Keras' TensorFlow backend. Set the environment variable "
            'KERAS_BACKEND=tensorflow before Python starts, or `"backend": "tensorflow"` in '
            f"~/.keras/keras.json. Received: backend {backend!r}"
        )


def check_tensorflow(built_for, running):
    """Raises ImportError unless both TensorFlow versions have the same C++ interface.

    Args:
        built_for: String such as `"2.21.0"`. What the ops were compiled with.
        running: String, the same of this process. The third number may differ.
    """
    if built_for.split(".")[:2] != running.split(".")[:2]:
        raise ImportError(
            "keras_sparse's native ops must run on the TensorFlow they were compiled for. "
            "Install that TensorFlow, or build keras_sparse with this one, in the source tree: "
            "`pip install scikit-build-core cmake ninja`, then `pip install --no-build-isolation "
            "--no-deps --force-reinstall .`. Received: compiled for "
            f"tensorflow {built_for}, running tensorflow {running}"
        )


def check_processor(march, cpuinfo):
    """Raises ImportError if the processor lacks instructions that the ops use.

    Args:
        march: String. What the ops were compiled for.
        cpuinfo: String. The text of `/proc/cpuinfo`; without flags nothing is checked.
    """
    flags = {
        flag
        for line in cpuinfo.splitlines()
        if line.startswith("flags")
        for flag in line.partition(":")[2].split()
    }
    missing = [flag for flag in _NEEDED_CPU_FLAGS.get(march, ()) if flags and flag not in flags]
    if missing:
        raise ImportError(
            f"keras_sparse's native ops must run on a processor with {', '.join(missing)}, as they "
            f"were compiled for {march}. Build them for this one, in the source tree: "
            "`pip install . -C cmake.define.KERAS_SPARSE_MARCH=x86-64`. Received: "
            f"{platform.processor() or platform.machine()}"
        )


def _load():
    try:
        from keras_sparse.native import _build_info
    except ImportError as error:
        raise ImportError(
            "keras_sparse must be installed with its native ops. Run `pip install .` in the source "
            f"tree and import it from elsewhere. Received: no {_LIBRARY} beside {__file__}"
        ) from error
    check_backend(keras.config.backend())
    check_tensorflow(_build_info.TENSORFLOW_VERSION, tf.__version__)
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        check_processor(_build_info.CPU_FLAGS, cpuinfo.read_text())
    # In an editable installation the library is not beside this file but beside _build_info.
    path = str(pathlib.Path(_build_info.__file__).with_name(_LIBRARY))
    library = tf.load_op_library(path)
    for name in _READ_ONLY_OPS:
        auto_control_deps_utils.register_read_only_resource_op(f"KerasSparse{name}")
        auto_control_deps_utils.register_read_only_resource_op(f"KerasSparse>{name}")
    return library, tuple(_build_info.LOWER_TIERS.split(";")), _build_info.CUDA_VERSION, path


# The ops, the names of the lower tiers that they were built with, and the version of CUDA, empty
# without.
lib, LOWER_TIERS, CUDA_VERSION, library_path = _load()


def set_error_prefix(prefix):
    """Lets the messages of all native errors of this process begin with a text.

    It is no op, so that it also takes effect where ops are being traced.

    Args:
        prefix: String, ASCII. Empty for none.
    """
    ctypes.CDLL(library_path).keras_sparse_set_error_prefix(prefix.encode())


# As keras_sparse_read_segment in ops/tf/checkpoint/read_segment.cc says.
read_segment = ctypes.CDLL(library_path).keras_sparse_read_segment
read_segment.restype = ctypes.c_int64
read_segment.argtypes = [
    ctypes.c_char_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int64,
]
