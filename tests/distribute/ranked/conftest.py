import os
import pathlib

import pytest

from keras_sparse.distribute.ranks.collectives import broadcast_object


def pytest_configure(config):
    """What `--basetemp` names becomes a folder of each rank."""
    if config.option.basetemp and "HOROVOD_RANK" in os.environ:
        config.option.basetemp += os.environ["HOROVOD_RANK"]


@pytest.fixture(name="folder")
def shared_folder(tmp_path):
    """A folder that all ranks see, and that stays until all are done."""
    yield pathlib.Path(broadcast_object(str(tmp_path), 0, "folder"))
    broadcast_object(None, 0, "done")
