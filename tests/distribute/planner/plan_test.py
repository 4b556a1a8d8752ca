import json
import sys

import numpy as np
import pytest

from keras_sparse.distribute import CostModel
from keras_sparse.distribute import Plan
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec

MODEL = CostModel(memory_bandwidth=1e9, network_bandwidth=1e9, batch_size=1000)


def small_plan(**kwargs):
    tables = [
        TableSpec("users", 100_000, 16, "sum", hotness=20, num_slots=1),
        TableSpec("items", 50_000, 16, "sum"),
        TableSpec("countries", 200, 8),
        TableSpec("queries", None, 4),
        *(TableSpec(f"field{i}", 1000, 4, "sum") for i in range(5)),
    ]
    thresholds = {"data_parallel_threshold": 2000, "column_slice_threshold": 400_000}
    return plan_placement(tables, 3, **{**thresholds, "cost_model": MODEL, **kwargs})


def test_sums_up(capsys):
    plan = small_plan()
    plan.print()
    assert capsys.readouterr().out == plan.summary() + "\n"
    assert str(plan) == plan.summary()
    assert plan.summary().splitlines() == [
        "9 tables on 3 ranks, strategy 'basic': 16.1 MB of rows and slots.",
        "",
        "table                     rows           width  kind           ranks    bytes",
        "users                  100,000  16 = 6 + 5 + 5  column_wise    0-2    12.8 MB",
        "items                   50,000      16 = 8 + 8  column_wise    0-1    3.20 MB",
        "countries                  200               8  data_parallel  0-2    19.2 kB",
        "queries                any key               4  row_wise       0-2    unknown",
        "field0 ... field4 (5)    1,000               4  table_wise     0-2    80.0 kB",
        "",
        "rank  tables    bytes     load",
        "   0       6  6.44 MB  16.2 ms",
        "   1       5  5.63 MB  15.5 ms",
        "   2       5  4.04 MB  15.2 ms",
        "",
        "Predicted step: 16.2 ms, of rank 0, 4% above the mean. Most memory: 6.44 MB, of rank 0.",
        "Not in the bytes: 1 dynamic table without first_tier_bytes; of a layer it is the "
        "storage_size[0] of its storage=StorageOption(...).",
    ]


def test_says_what_is_not_counted():
    known = plan_placement([TableSpec("keys", None, 4, first_tier_bytes=10**6)], 2)
    assert "Not in the bytes" not in str(known)
    assert known.rank_bytes.tolist() == [10**6, 10**6]


def test_shortens_what_is_long():
    name = "a_long_name_" * 10
    plan = plan_placement([TableSpec(name, 10, 40), TableSpec("b", 10, 2)], 40)
    lines = str(plan).splitlines()
    assert all(len(line) < 110 for line in lines[2:5])
    assert "a_long_name_a_long_name_a_long_name_a..." in lines[3]
    assert "40 = 1 x 2 + 38 x 1" in lines[3]


def test_the_text_has_a_line_a_rank():
    tables = [TableSpec(f"t{i}", 10, 4) for i in range(2000)]
    lines = str(plan_placement(tables, 128)).splitlines()
    assert len(lines) < 140
    assert "t0 ... t1999 (2000)" in lines[3]
    assert "0-127" in lines[3]


def test_load_is_what_the_slices_of_a_rank_cost():
    tables = [TableSpec("a", 1000, 20, "sum", hotness=5), TableSpec("b", 30, 20, hotness=5)]
    tables.append(TableSpec("small", 2, 4))
    plan = plan_placement(tables, 2, data_parallel_threshold=8, cost_model=MODEL)
    assert [each.kind for each in plan.placements] == ["table_wise", "table_wise", "data_parallel"]
    first, second = (MODEL.column_slice(table, 20, 2) for table in tables[:2])
    on_all = first[0] + second[0] + MODEL.data_parallel(tables[2], 2)
    assert plan.rank_seconds == pytest.approx([on_all + first[1], on_all + second[1]])
    assert plan.step_seconds == plan.rank_seconds.max()


def test_knows_its_slices():
    plan = small_plan()
    assert plan.tables_of(0) == [0, 1, 5, 8, 3, 2]
    for rank in (-1, 3):
        with pytest.raises(ValueError, match=rf"`rank` must be in \[0, 3\). Received: rank={rank}"):
            plan.tables_of(rank)


def test_draws_bytes_and_load():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    plan = small_plan(memory_budget="20MB")
    ax = plan.plot()
    load_ax = next(each for each in ax.figure.axes if each is not ax)
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert np.sum(heights, axis=0) == pytest.approx(plan.rank_bytes / 1e6)
    (points,) = load_ax.lines
    assert points.get_ydata() == pytest.approx(plan.rank_seconds * 1e3)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["table_wise", "column_wise", "data_parallel", "memory_budget", "load"]
    _, other = pyplot.subplots()
    assert plan.plot(other) is other
    with pytest.raises(TypeError, match=r"`ax` must be Axes of matplotlib\. Received: ax=3"):
        plan.plot(3)
    pyplot.close("all")


def test_sums_up_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plan = small_plan()
    assert str(plan)
    with pytest.raises(ImportError, match=r"`plot` needs matplotlib.*pip install matplotlib"):
        plan.plot()


def test_comes_back_from_json():
    plan = small_plan(memory_budget="20MB", input_table_map=[3, 0, 0, 8])
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again != small_plan()
    assert again != "a plan"
    assert str(again) == str(plan)
    assert again.slices_of_input(1) == plan.placements[0].slices


def changed(change):
    config = json.loads(small_plan().to_json())
    change(config)
    return json.dumps(config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "{",
            "must be text that `to_json` wrote. Create the plan again. Received: JSONDecodeError",
        ),
        ("[]", r"must have format 1. Create the plan again. Received: format=\[\]"),
        (changed(lambda plan: plan.update(format=2)), "must have format 1.*format=2"),
        (changed(lambda plan: plan.pop("tables")), "Received: KeyError.*tables"),
        (changed(lambda plan: plan.update(ranks=3)), "Received: TypeError.*ranks"),
        (
            changed(lambda plan: plan["placements"][0]["slices"].pop()),
            "slices of table 'users' must cover each of its 16 columns once, on ranks below 3",
        ),
        (
            changed(lambda plan: plan["placements"][0]["slices"][0].__setitem__(0, 1)),
            "slices of table 'users' must cover",
        ),
        (
            changed(lambda plan: plan["placements"][0]["slices"][0].__setitem__(1, 1)),
            "slices of table 'users' must cover",
        ),
        (changed(lambda plan: plan["placements"][3]["slices"].pop()), "slices of table 'queries'"),
        (changed(lambda plan: plan.update(num_ranks=4)), "slices of table"),
        (changed(lambda plan: plan["placements"].pop()), "Received: 8 placements of 9 tables"),
        (changed(lambda plan: plan["placements"][1].update(kind="row")), "`kind` must be one of"),
        (changed(lambda plan: plan["rank_tables"][0].pop()), "must list each table once for every"),
        (changed(lambda plan: plan["input_table_map"].append(9)), r"input_table_map\[9\]=9"),
    ],
)
def test_refuses_a_damaged_plan(text, words):
    with pytest.raises(ValueError, match=words):
        Plan.from_json(text)
