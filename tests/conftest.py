import gc
import os
import pathlib
import sys
import time

import keras
import pytest
from tensorflow.python import pywrap_tfe

# The shared batteries, `import checks`.
sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))

REASONS = {
    "starts processes",
    "emulated GPU",
    "three ranks",
    "long history",
    "benchmark",
    "example",
}
LONGEST_FILES = ("gpu/emulated", "checkpoint_kill", "failing_ranks", "saving_ranks", "process_end")


def pytest_addoption(parser):
    parser.addoption("--most-seconds", type=float, help="fail tests that take longer")


def pytest_configure(config):
    """What `--basetemp` names becomes a folder of each rank: where pytests share one, each sweeps
    out what others left, at once.
    """
    if config.option.basetemp and "HOROVOD_RANK" in os.environ:
        config.option.basetemp += os.environ["HOROVOD_RANK"]


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in item.iter_markers("slow"):
            if mark.args not in {(reason,) for reason in REASONS}:
                raise pytest.UsageError(f"{item.nodeid}: {mark} must name one of {REASONS}")
    # The longest begin first, so that no worker is left with one when others have nothing to do.
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST_FILES))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    start = time.monotonic(), time.process_time()
    result = yield
    # The one that a busy machine makes no longer: a test that computes takes time of processors.
    seconds = min(time.monotonic() - start[0], time.process_time() - start[1])
    most = item.config.option.most_seconds
    if most and seconds > most:
        pytest.fail(
            f"A test must take at most {most:g} s, or be marked with a reason of "
            f'{sorted(REASONS)}: `@pytest.mark.slow("example")`. Received: {seconds:.2f} s',
            pytrace=False,
        )
    return result


@pytest.fixture(autouse=True, scope="module")
def _a_heap_of_its_own():
    """Keeps the collections of a file's tests from walking what was there before."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_garbage():
    gc.collect()


@pytest.fixture(autouse=True)
def _same_seed():
    """Seeds all generators, but those inside TensorFlow's kernels (`tf.random.uniform`).

    TensorFlow would drop all kernels for these, and make them anew in each test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pywrap_tfe, "TFE_ContextClearCaches", lambda context: None)
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
