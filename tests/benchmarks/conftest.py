import os
import pathlib
import sys
from unittest import mock

import pytest

# They lie beside the package, not in it.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))


@pytest.fixture(autouse=True, scope="session")
def _compiled_once(tmp_path_factory, worker_id):
    """The plain C++ of the floor is compiled once for all tests, whatever process they run in."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "floor"
    folder.mkdir(exist_ok=True)
    with mock.patch.dict(os.environ, KERAS_SPARSE_FLOOR_FOLDER=str(folder)):
        yield


@pytest.fixture(autouse=True)
def _same_environment():
    """What benchmarks set for their processes is not there for the tests that follow."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def in_this_process(monkeypatch):
    """Lets a benchmark measure here what it measures in fresh processes, which say nothing new."""

    def use(module):
        monkeypatch.setattr(module, "in_fresh_process", lambda function, *given: function(*given))

    return use
