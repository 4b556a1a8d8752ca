import json

import pytest

from keras_sparse.__main__ import main
from keras_sparse.distribute import CostModel
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.scaling import scaling_of
from keras_sparse.distribute.planner.scaling import scaling_text

TABLE = TableSpec("users", rows=10**6, width=16, combiner="sum", hotness=20, num_slots=1)
MODEL = CostModel(memory_bandwidth=1e9, network_bandwidth=1e9, batch_size=1000, table_seconds=0)


def plans_of(*numbers, model=MODEL):
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
    assert "No plan for 1 ranks: `memory_budget` of all ranks must hold" in printed
    assert main([*command, "--strategy", "auto", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plans"] == scaling_of(plans)
    assert [*found["without"]] == ["1"]
    assert main([*command, "--save", str(tmp_path / "plan.json")]) == 2
    assert "Give one number of ranks. Received: --ranks 4 1 2" in capsys.readouterr().err
