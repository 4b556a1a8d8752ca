"""Tables of two ranks in the memory of a GPU, which the CPU emulates and both share."""

import pathlib

import pytest

import saving_ranks
from ranks import needs_horovod
from ranks import run_ranks

TESTS = pathlib.Path(__file__).parents[1]

FILES = (
    "gpu/tables_of_ranks.py",
    "distribute/ranked/exchange_errors_test.py::test_gradients_that_one_rank_cannot_return_are_an_error_on_all",
)


@pytest.mark.slow("emulated GPU")
@needs_horovod
@pytest.mark.skipif("saving_ranks.ksd.size() > 1", reason="it starts ranks itself")
def test_tables_of_ranks_are_used_on_their_gpus(build_info, driver, tmp_path, monkeypatch):
    saving_ranks.run(tmp_path, ["begin=of1"])
    monkeypatch.setenv("EMULATED_BUILD_INFO", str(build_info))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("PYTHONPATH", str(TESTS / "gpu"))
    monkeypatch.setenv("SAVED", str(tmp_path))
    files = [f"{TESTS}/{name}" for name in FILES]
    options = ("-x", "-q", "-p", "tables_on_gpu", "-p", "no:cacheprovider", "--durations=5")
    options += ("--basetemp", tmp_path / "rank")
    status, printed = run_ranks(2, "-m", "pytest", *options, *files, fresh=True)
    assert status == 0, printed[-5000:]
    saving_ranks.run(tmp_path, ["load=of2"])
