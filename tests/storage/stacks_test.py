"""Whatever a table trains with, tiers give what memory alone gives, bit for bit."""

from filter_cases import CASES as FILTERS
from filter_cases import remembered
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import optimizers
from optimizer_cases import each_optimizer
from pairwise import each_pair
from table_twins import small
from table_twins import STACKS
from table_twins import Twins

# Of one that makes up for missed steps, and of those that do not.
RATES = {"Adagrad": 0.1, "Adam": 0.04, "LazyAdam": 0.1}


def make_twins(storage, optimizer, **options):
    make_optimizer = getattr(optimizers, optimizer)
    return Twins(storage, lambda: make_optimizer(RATES[optimizer]), **options)


@each_optimizer
def test_every_optimizer(case, tmp_path):
    twins = Twins(small(tmp_path), case.make)
    for _ in range(2):
        twins.train_some(10)
        twins.check()
    twins.check_each_tier_has_rows()


@each_pair(case=FILTERS, storage_type=STACKS, optimizer=RATES)
def test_every_filter(case, storage_type, optimizer, tmp_path):
    twins = make_twins(small(tmp_path, storage_type), optimizer, admission=case.make())
    twins.train_some(30)
    twins.check()
    twins.check_each_tier_has_rows()
    assert twins.plain.stats()["filtered_ids"] > 0
    ours, expected = (remembered(table) for table in twins.tables)
    assert ours == expected


@each_pair(eviction=[GlobalStepEvict(5), L2WeightEvict(0.3)], storage_type=STACKS, optimizer=RATES)
def test_every_eviction_policy(eviction, storage_type, optimizer, tmp_path):
    twins = make_twins(small(tmp_path, storage_type), optimizer, eviction=eviction)
    for _ in range(3):
        twins.train_some(8)
        twins.check_each_tier_has_rows()
        num_evicted = [table.evict() for table in twins.tables]
        assert num_evicted[0] == num_evicted[1] > (200 if optimizer == "Adagrad" else 150)
        twins.check()
        assert twins.plain.num_rows > 200
    ours, expected = (table.stats()["evicted_rows"] for table in twins.tables)
    assert ours == expected
