import sys
import types
import warnings

import pytest

from keras_sparse.distribute.ranks import launcher_environment
from keras_sparse.distribute.ranks import runtime


@pytest.fixture(autouse=True)
def without_launchers(monkeypatch):
    for name in (*launcher_environment.LAUNCHERS, *launcher_environment.OTHER_LAUNCHERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "horovod.tensorflow", raising=False)


@pytest.mark.parametrize("name", launcher_environment.OTHER_LAUNCHERS)
def test_warns_of_processes_that_do_not_know_of_each_other(name, monkeypatch):
    monkeypatch.setenv(name, "4")
    message = rf"as rank 0 of 1.* same files\. .*`horovodrun -np 4 python \.\.\.`.*'{name}': '4'"
    with pytest.warns(UserWarning, match=message):
        assert runtime._join().size() == 1


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"},  # a batch script
        {"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # srun -n 1
        {"SLURM_STEP_NUM_TASKS": "4", "OMPI_COMM_WORLD_SIZE": "1"},  # mpirun -np 1 in a step
    ],
    ids=["plain", "batch script", "step of one", "launcher of one"],
)
def test_a_process_that_is_alone_is_not_warned(variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert runtime._join().size() == 1


def test_warns_where_horovod_does_not_find_those_that_were_launched(monkeypatch):
    horovod = types.SimpleNamespace(is_initialized=lambda: False, init=lambda: None, size=lambda: 1)
    monkeypatch.setitem(sys.modules, "horovod", types.SimpleNamespace(tensorflow=horovod))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", horovod)
    monkeypatch.setenv("PMI_SIZE", "3")
    with pytest.warns(UserWarning, match="horovodrun -np 3 .*'PMI_SIZE': '3'"):
        assert runtime._join() is horovod
