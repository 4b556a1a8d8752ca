import pathlib

import pytest

import saving_ranks
from ranks import needs_horovod
from ranks import run_ranks

pytestmark = pytest.mark.slow("three ranks")
SCRIPT = pathlib.Path(saving_ranks.__file__)


@needs_horovod
@pytest.mark.skipif("saving_ranks.ksd.size() > 1", reason="it starts ranks itself")
def test_what_some_ranks_have_saved_goes_on_on_others(tmp_path):
    """From 3 ranks to 1 and 2, and back; each also saves what it has loaded."""

    def on(num_ranks, *steps):
        status, printed = run_ranks(num_ranks, SCRIPT, tmp_path, *steps)
        assert status == 0, printed
        assert printed.count("done") == len(steps), printed

    on(3, "begin=of3", "accumulate=mean")
    saving_ranks.run(tmp_path, ["never_stop", "load=of3=of1", "load=of3-delta", "keras=of3"])
    saving_ranks.run(tmp_path, ["load_accumulated=mean"])
    on(2, "load=of3=of2", "load=of3-delta", "load=of1", "keras=of1", "load_accumulated=mean")
    on(2, "pack=packed")
    saving_ranks.run(tmp_path, ["load=of2", "keras=of2", "load_packed=packed"])
    on(3, "load_packed=packed")
