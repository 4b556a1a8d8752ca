import gc
import os
import pathlib
import sys

import keras
import pytest

# The shared batteries, `import checks`.
sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))

# Parts of the names of the files that take longest.
_SLOW_FILES = (
    "gpu/emulated",
    "failing_ranks",
    "saving_ranks",
    "random_batches",
    "process_end",
    "checkpoint/checkpoint_test",
    "keras_files/memory",
    "checkpoint/resume",
    "data/prefetch_lookups",
    "callbacks/checkpoint",
    "saved_model/saved_model",
    "benchmarks/",
    "examples/",
)


def pytest_configure(config):
    """What `--basetemp` names becomes a folder of each rank: where pytests share one, each sweeps
    out what others left, at once.
    """
    if config.option.basetemp and "HOROVOD_RANK" in os.environ:
        config.option.basetemp += os.environ["HOROVOD_RANK"]


def pytest_collection_modifyitems(config, items):
    """They begin first: no worker is left with one of them when the others have nothing to do."""
    if hasattr(config, "workerinput"):  # a worker of several
        items.sort(key=lambda item: not any(name in item.nodeid for name in _SLOW_FILES))


@pytest.fixture(autouse=True, scope="module")
def _a_heap_of_its_own():
    """What imports and earlier files have left is not walked again by each collection of a test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_seed():
    keras.utils.set_random_seed(7)


@pytest.fixture(autouse=True)
def _same_settings():
    """What a test leaves in the environment would be a setting of the tables of all later ones."""
    before = _settings()
    yield
    assert _settings() == before


def _settings():
    return {name: value for name, value in os.environ.items() if name.startswith("KERAS_SPARSE_")}


@pytest.fixture
def dtype_policy(request):
    """The global dtype policy named by the test's parameter, for the length of the test."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)
