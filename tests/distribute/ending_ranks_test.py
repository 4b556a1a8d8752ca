import os
import pathlib

from ranks import needs_horovod
from ranks import run_ranks

SCRIPT = pathlib.Path(__file__).with_name("ending_rank.py")
SUPPORT = pathlib.Path(__file__).parents[1] / "support"


@needs_horovod
def test_rounds_that_no_step_comes_for_end_without_a_warning(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    status, printed = run_ranks(2, SCRIPT)
    assert status == 0, printed
    assert printed.count("is done") == 2
    assert "aborting" not in printed
    assert "OP_REQUIRES failed" not in printed
