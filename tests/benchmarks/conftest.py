import os
import pathlib
import sys
from unittest import mock

import pytest

# They lie beside the package, not in it.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def _same_environment():
    """What benchmarks set for their processes is not there for the tests that follow."""
    with mock.patch.dict(os.environ):
        yield
