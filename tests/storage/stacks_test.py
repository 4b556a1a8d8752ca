"""Whatever a table trains with, tiers give what memory alone gives, bit for bit."""

import pytest

from filter_cases import each_filter
from filter_cases import remembered
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from optimizer_cases import each_optimizer
from table_twins import each_stack
from table_twins import small
from table_twins import Twins


@each_optimizer
def test_every_optimizer(case, tmp_path):
    twins = Twins(small(tmp_path), case.make)
    for _ in range(2):
        twins.train_some(10)
        twins.check()
    twins.check_each_tier_has_rows()


@each_stack
@each_filter
def test_every_filter(case, storage_type, tmp_path):
    twins = Twins(small(tmp_path, storage_type), admission=case.make())
    twins.train_some(30)
    twins.check()
    twins.check_each_tier_has_rows()
    assert twins.plain.stats()["filtered_ids"] > 0
    ours, expected = (remembered(table) for table in twins.tables)
    assert ours == expected


@each_stack
@pytest.mark.parametrize(
    "eviction", [GlobalStepEvict(5), L2WeightEvict(0.3)], ids=["steps", "weight"]
)
def test_every_eviction_policy(eviction, storage_type, tmp_path):
    twins = Twins(small(tmp_path, storage_type), eviction=eviction)
    for _ in range(3):
        twins.train_some(8)
        twins.check_each_tier_has_rows()
        num_evicted = [table.evict() for table in twins.tables]
        assert num_evicted[0] == num_evicted[1] > 200
        twins.check()
        assert twins.plain.num_rows > 200
