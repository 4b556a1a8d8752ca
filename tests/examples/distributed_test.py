import re

import pytest

import distributed
from ranks import needs_horovod
from ranks import run_ranks

TINY = ("--samples", "500", "--epochs", "2", "--batch-size", "64")


@pytest.mark.slow("example")
def test_learns_who_clicks_on_what(capsys):
    metrics = distributed.main([])
    assert metrics["auc"] > 0.7
    assert capsys.readouterr().out.startswith("4 tables on 1 rank")


@needs_horovod
@pytest.mark.slow("starts processes")
def test_two_ranks_print_once_what_one_gives(examples_folder):
    expected = distributed.main(TINY)
    status, printed = run_ranks(2, examples_folder / "distributed.py", *TINY)
    assert status == 0, printed
    (numbers,) = re.findall(r"Test: loss (\S+), AUC (\S+)", printed)
    received = [float(number) for number in numbers]
    assert received == pytest.approx([expected["loss"], expected["auc"]], abs=2e-4), printed
    assert printed.count("4 tables on 2 ranks") == 1
    assert printed.count("Epoch 2/2") == 1
