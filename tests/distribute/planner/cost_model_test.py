import pytest

from keras_sparse.distribute import CostModel
from keras_sparse.distribute import TableSpec

# A nanosecond a byte of memory, a microsecond a byte of the network.
MODEL = CostModel(memory_bandwidth=1e9, network_bandwidth=1e6, batch_size=10, table_seconds=0)
POOLED = TableSpec("pooled", 1000, 20, "sum", hotness=5, num_slots=1)
ROWS = TableSpec("rows", 30, 20, hotness=5, trainable=False)


def seconds(memory, network):
    return pytest.approx(memory / 1e9 + network / 1e6)


def test_a_slice_costs_its_rank_the_lookups_of_all():
    # Ids: 50 of a rank, 200 of all four. 8 floats are a line, 8 with a slot are one as well.
    every_rank, its_rank = MODEL.column_slice(POOLED, 8, 4)
    travels = 8 * 50 + 2 * 32 * 10
    assert every_rank == seconds(0, travels)
    memory = 200 * (64 + 32) + 200 * 2 * 64
    assert every_rank + its_rank == seconds(memory, 3 * travels)


def test_a_slice_that_is_not_trained_is_read_alone():
    # 30 rows are all there are, and come back as they are.
    every_rank, its_rank = MODEL.column_slice(ROWS, 20, 2)
    assert every_rank == seconds(0, 8 * 30 + 80 * 30)
    assert its_rank == seconds(100 * 128, 0)


def test_one_rank_sends_nothing():
    assert MODEL.column_slice(POOLED, 20, 1) == (0, seconds(50 * (128 + 80) + 50 * 2 * 192, 0))


def test_rows_of_a_table_are_asked_of_all_ranks():
    # 50 rows come back, or sums: 10 of each of 4 ranks, which are fewer.
    network = 2 * 3 / 4 * (8 * 50 + 2 * 80 * 40)
    assert MODEL.row_wise(POOLED, 4) == seconds(50 * (128 + 80) + 200 / 4 * 2 * 192, network)
    assert MODEL.row_wise(ROWS, 2) == seconds(50 * 128, 8 * 30 + 80 * 30)


def test_a_dynamic_table_has_as_many_rows_as_ids():
    keys = TableSpec("keys", None, 20, "sum", hotness=5, num_slots=1)
    assert MODEL.row_wise(keys, 4) == MODEL.row_wise(POOLED, 4)


def test_copies_get_the_merged_gradients_of_all_ranks():
    network = 2 * 3 * 50 * (8 + 80)
    memory = 50 * (128 + 80) + 200 * 2 * 192 + 4 * 50 * 2 * 80
    assert MODEL.data_parallel(POOLED, 4) == seconds(memory, network)
    few = TableSpec("few", 30, 20, "sum", hotness=5, num_slots=1)
    memory = 50 * (128 + 80) + 30 * 2 * 192 + 4 * 30 * 2 * 80
    assert MODEL.data_parallel(few, 4) == seconds(memory, 2 * 3 * 30 * (8 + 80))
    assert MODEL.data_parallel(ROWS, 4) == seconds(50 * 128, 0)


def test_inputs_of_a_table_add_up():
    both = TableSpec("both", 1000, 20, "sum", hotness=(5, 5), num_slots=1)
    assert MODEL.row_wise(both, 2) == pytest.approx(2 * MODEL.row_wise(POOLED, 2))
    unused = TableSpec("unused", 1000, 20, hotness=())
    assert MODEL.column_slice(unused, 20, 2) == (0, 0)


def test_each_table_of_a_rank_takes_its_time():
    model = CostModel(1e9, 1e6, 10, table_seconds=0.5)
    every_rank, its_rank = model.column_slice(POOLED, 8, 4)
    assert every_rank == MODEL.column_slice(POOLED, 8, 4)[0]
    assert its_rank == pytest.approx(0.5 + MODEL.column_slice(POOLED, 8, 4)[1])
    assert model.row_wise(ROWS, 2) == pytest.approx(0.5 + MODEL.row_wise(ROWS, 2))
    assert model.data_parallel(ROWS, 2) == pytest.approx(0.5 + MODEL.data_parallel(ROWS, 2))


def test_comes_back_from_its_config():
    assert CostModel.from_config(MODEL.get_config()) == MODEL
    assert CostModel() != MODEL


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"memory_bandwidth": 0}, ValueError, "`memory_bandwidth` must be above 0"),
        ({"network_bandwidth": float("inf")}, ValueError, "`network_bandwidth` must be finite"),
        ({"network_bandwidth": "fast"}, TypeError, "`network_bandwidth` must be a number"),
        ({"table_seconds": -1e-6}, ValueError, "`table_seconds` must not be below 0"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be above 0"),
    ],
)
def test_refuses_what_is_no_speed(arguments, error, words):
    with pytest.raises(error, match=words):
        CostModel(**arguments)
