import json

import pytest

from keras_sparse.__main__ import main
from keras_sparse.distribute import CostModel
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.scaling import scaling_of
from keras_sparse.distribute.planner.scaling import scaling_text

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


TABLE = TableSpec("users", rows=10**6, width=16, combiner="sum", hotness=20, num_slots=1)
SMALL_MODEL = CostModel(
    memory_bandwidth=1e9, network_bandwidth=1e9, batch_size=1000, table_seconds=0
)


def plans_of(*numbers, model=SMALL_MODEL):
    return [plan_placement([TABLE], n, row_slice_threshold=1, cost_model=model) for n in numbers]


def test_follows_the_formulas_of_the_cost_model():
    found = scaling_of(plans_of(1, 2, 4))
    for each in found:
        n = each["ranks"]
        parts = min(20_000, n * 1000)
        # Of a row-wise table a rank sends ids of 8 bytes, and rows of 64 twice, each counted twice.
        assert each["network_bytes"] == pytest.approx(
            2 * (n - 1) / n * (8 * 20_000 + 2 * 4 * 16 * parts) if n > 1 else 0
        )
        memory = 20_000 * (64 + 64) + 20_000 * 2 * 128
        assert each["step_seconds"] == pytest.approx((memory + each["network_bytes"]) / 1e9)
        assert each["samples_per_second"] == pytest.approx(n * 1000 / each["step_seconds"])
        assert each["rank_bytes"] == 10**6 // n * 128
        assert each["of_ideal"] == pytest.approx(found[0]["step_seconds"] / each["step_seconds"])


@pytest.mark.parametrize(
    ("network_bandwidth", "advice"),
    [(1e12, "It scales to 8 ranks."), (1e5, "It stops scaling at 1. From 1 to 2 ranks it is -")],
)
def test_says_where_to_stop(network_bandwidth, advice):
    model = CostModel(1e9, network_bandwidth, 1000, 0)
    assert advice in scaling_text(scaling_of(plans_of(1, 2, 4, 8, model=model)))


def test_what_comes_after_a_dip_counts():
    def found(*samples):
        keys = ("step_seconds", "rank_bytes", "network_bytes", "of_ideal")
        return [
            {"ranks": 2**i, "samples_per_second": each} | dict.fromkeys(keys, 1)
            for i, each in enumerate(samples)
        ]

    dip = " From 2 to 4 ranks it is +10% samples a second."
    assert scaling_text(found(10, 20, 22, 40)).endswith(f"\nIt scales to 8 ranks.{dip}")
    assert scaling_text(found(10, 20, 22)).endswith(f"\nIt stops scaling at 2.{dip}")


def test_the_command_takes_several_numbers(tmp_path, capsys):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLE.get_config()]))
    command = ["plan", "--tables", str(path), "--ranks", "4", "1", "2", "--memory-budget", "80MB"]
    assert main([*command, "--strategy", "auto"]) == 0
    printed = capsys.readouterr().out
    plans = [plan_placement([TABLE], n, "auto", memory_budget="80MB") for n in (2, 4)]
    assert printed.startswith(scaling_text(scaling_of(plans)))
    assert "No plan for 1 ranks: `memory_budget` of all ranks together must hold" in printed
    assert main([*command, "--strategy", "auto", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plans"] == scaling_of(plans)
    assert [*found["without"]] == ["1"]
    assert main([*command, "--save", str(tmp_path / "plan.json")]) == 2
    assert "Give one number of ranks. Received: --ranks 4 1 2" in capsys.readouterr().err


def test_reads_the_bytes_of_the_dtypes_and_sends_float32():
    options = {"rows": 10**6, "width": 64, "combiner": "sum", "hotness": 4, "num_slots": 1}
    plain = TableSpec("t", **options)
    fewer = TableSpec("t", **options, row_dtype="bfloat16", slot_dtype="bfloat16")
    memory = CostModel(1e9, 1e300, 1000, 0)
    # 4,000 ids: their rows, their gradients in float32, and rows and slots, read and written.
    assert memory.row_wise(plain, 1) == pytest.approx(4e-6 * (256 + 256 + 2 * 512))
    assert memory.row_wise(fewer, 1) == pytest.approx(4e-6 * (128 + 256 + 2 * 256))
    network = memory.of_network_alone()
    assert network.row_wise(plain, 4) == network.row_wise(fewer, 4) > 0
