import importlib.metadata
import json
import os
import pathlib
import platform
import re

import keras
import tensorflow as tf

from keras_sparse.native import _build_info
from keras_sparse.native import library
from keras_sparse.storage.storage_type import StorageType
from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.text_table import aligned

# What is said where there is none, if not that it is not installed.
_WITHOUT = {
    "horovod": "not installed; for several ranks: python -m keras_sparse install-horovod",
    "built with cuda": "no, it is a build without CUDA",
    "gpus": "none that TensorFlow sees",
}


def run(options):
    """Prints what `collect` returns.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    found = collect()
    if options.json:
        print(json.dumps(found, indent=1))
        return
    lines = [(name, _text(name, value)) for name, value in found.items()]
    print("\n".join(aligned(lines, "ll")))


def collect():
    """Returns a dict of strings, integers, lists of strings and `None`, in the order to read."""
    return {
        "keras_sparse": _version("keras-sparse"),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": _version("numpy"),
        "horovod": _version("horovod"),
        "built for tensorflow": _build_info.TENSORFLOW_VERSION,
        "built for processors": _build_info.CPU_FLAGS or "as the compiler has it",
        "built with cuda": _build_info.CUDA_VERSION or None,
        "built for gpus": _compute_capabilities(_build_info.CUDA_ARCHITECTURES),
        "lower tiers": list(library.LOWER_TIERS),
        "storage types": [each.value for each in StorageType if _is_built(each)],
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": len(tf.config.list_physical_devices("GPU")),
    }


def _is_built(storage_type):
    has_gpu = _build_info.CUDA_VERSION and tf.config.list_physical_devices("GPU")
    return set(storage_type.tiers) <= {"DRAM", *library.LOWER_TIERS, *(["HBM"] if has_gpu else [])}


def _compute_capabilities(architectures):
    """A list of what CMake has as `"90-real;120"`."""
    return re.findall(r"([^;]+?)(?:-real|-virtual)?(?:;|$)", architectures)


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1] if found else platform.machine()


def _text(name, value):
    if name == "memory":
        return bytes_text(value)
    if not value and name in _WITHOUT:
        return _WITHOUT[name]
    if value is None:
        return "not installed"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)
