import argparse

import numpy as np
import pytest

from benchmarks import row_dtype_quality


def test_quality_is_the_share_of_pairs_in_order_and_the_mean_logarithm():
    labels = np.array([1, 0, 1, 0, 0, 1], np.float32)
    chances = np.array([0.9, 0.2, 0.2, 0.7, 0.1, 0.8], np.float32)
    clicked, others = chances[labels > 0][:, None], chances[labels < 1]
    pairs = (clicked > others).mean() + (clicked == others).mean() / 2
    loss = -np.log([0.9, 0.8, 0.2, 0.3, 0.9, 0.8]).mean()
    assert row_dtype_quality.quality(labels, chances) == pytest.approx((pairs, loss))


def test_a_table_has_the_means_of_the_differences_by_seed():
    forms = {
        "float32": {0: (0.8, 0.5), 1: (0.9, 0.3)},
        "bfloat16 rows, nearest": {0: (0.79, 0.5), 1: (0.88, 0.34)},
    }
    lines = row_dtype_quality.table(forms).splitlines()
    assert lines[2] == "| float32 | 0.85000 ± 0.05000 |  | 0.40000 ± 0.10000 |  |"
    cells = [cell.strip() for cell in lines[3].split("|")]
    assert cells[3] == "-0.01500 ± 0.00500"
    assert cells[5] == "+0.02000 ± 0.02000"


@pytest.mark.slow("benchmark")
def test_every_form_trains_from_a_seed(monkeypatch):
    forms = ("float32", "bfloat16 rows and slots, stochastic", "float16 rows, nearest")
    few = {form: row_dtype_quality.FORMS[form] for form in forms}
    monkeypatch.setattr(row_dtype_quality, "FORMS", few)
    options = argparse.Namespace(samples=4000, epochs=1, first_seed=3, seeds=1)
    results = row_dtype_quality.measure("dlrm", options)
    assert len(results) == 2
    for facts, found in results.items():
        assert facts.startswith("`dlrm`, ")
        assert [*found] == [*forms]
        aucs = {each[3][0] for each in found.values()}
        assert len(aucs) > 1  # bits differ
        assert max(aucs) - min(aucs) < 0.01
