"""Tables in the memory of a GPU, for any tests: `pytest -p tables_on_gpu`.

With EMULATED_BUILD_INFO the GPU is that of `fake_driver.c`, which has the process' memory and on
which TensorFlow's own kernels do nothing. Ours do, for the native ops are those of the build for
tests, whose kernels run on the CPU.
"""

import importlib
import importlib.util
import os
import re
import sys


def _take_ops_of(build_info):
    """Lets the package find its library beside another module of what it was built for."""
    spec = importlib.util.spec_from_file_location("keras_sparse.native._build_info", build_info)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _put_tables_on_the_gpu():
    """What has no storage of its own is in the GPU's memory."""
    option = importlib.import_module("keras_sparse.storage.storage_option").StorageOption
    option.__init__.__defaults__ = ("HBM", *option.__init__.__defaults__[1:])


def pytest_collection_modifyitems(config, items):
    """Leaves out what names another memory: without a GPU those tests have run."""
    elsewhere = [item for item in items if re.search(r"[\[-]DRAM", item.nodeid)]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = [item for item in items if item not in elsewhere]


# Before tests are collected, which imports the package and computes their cases.
if "EMULATED_BUILD_INFO" in os.environ:
    _take_ops_of(os.environ["EMULATED_BUILD_INFO"])
importlib.import_module("keras_sparse.distribute").init()  # before TensorFlow uses a GPU
if "EMULATED_BUILD_INFO" in os.environ:
    importlib.import_module("tensorflow").device("CPU").__enter__()
    collectives = importlib.import_module("keras_sparse.distribute.ranks.collectives")
    collectives.sends_from_gpus = lambda: False  # NCCL knows no such GPU
_put_tables_on_the_gpu()
