import json
import pathlib
import re
import sys

import pytest

from keras_sparse.__main__ import main
from keras_sparse.distribute import CostModel
from keras_sparse.distribute import Plan
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.table_file import read_tables

ROOT = pathlib.Path(__file__).parents[3]
TABLES = [
    {"name": "users", "rows": 100_000, "width": 16, "combiner": "sum", "hotness": 20},
    {"name": "items", "rows": 5000, "width": 16},
    {"name": "queries", "rows": None, "width": 8},
]


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(TABLES))
    return path


def test_prints_draws_and_saves(tables, tmp_path, capsys):
    picture, saved = tmp_path / "plan.svg", tmp_path / "plan.json"
    options = ["--tables", tables, "--ranks", "4", "--picture", picture, "--save", saved]
    assert main(["plan", *map(str, options)]) == 0
    plan = plan_placement([TableSpec(**each) for each in TABLES], 4)
    assert capsys.readouterr().out == f"{plan}\nPicture: {picture}\nPlan: {saved}\n"
    assert picture.read_text().startswith("<?xml")
    assert Plan.from_json(saved.read_text()) == plan


@pytest.mark.parametrize(
    "options", ["--strategy memory_balanced", "--strategy auto --memory-budget 12GB"]
)
def test_the_guide_shows_what_the_example_prints(options, capsys):
    common = ["--tables", str(ROOT / "examples" / "tables.json"), "--ranks", "4"]
    assert main(["plan", *common, "--num-slots", "1", *options.split()]) == 0
    guide = (ROOT / "docs/how-to/placement.md").read_text()
    assert f"```text\n{capsys.readouterr().out}```" in guide


def test_hands_the_options_on(tables, capsys):
    options = "--strategy auto --memory-budget 9MB --row-slice-threshold 1000000 --num-slots 1"
    options += " --column-slice-threshold 50000 --data-parallel-threshold 10"
    options += " --memory-bandwidth 1e9 --network-bandwidth 1e8 --batch-size 100 --table-seconds 0"
    assert main(["plan", "--tables", str(tables), "--ranks", "3", *options.split()]) == 0
    plan = plan_placement(
        [TableSpec(num_slots=1, **each) for each in TABLES],
        3,
        "auto",
        column_slice_threshold=50_000,
        row_slice_threshold=10**6,
        data_parallel_threshold=10,
        memory_budget=9_000_000,
        cost_model=CostModel(1e9, 1e8, 100, 0.0),
    )
    assert capsys.readouterr().out == f"{plan}\n"


def test_a_plan_that_cannot_be_is_an_error_of_one_line(tables, capsys):
    assert main(["plan", "--tables", str(tables), "--ranks", "2", "--memory-budget", "1MB"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error: `memory_budget` of all ranks together must hold" in printed.err
    assert "Take 7 ranks, or a memory_budget of" in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path, capsys):
    assert main(["plan", "--tables", str(tmp_path / "none.json"), "--ranks", "2"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_picture_without_matplotlib_is_an_error(tables, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = ["--ranks", "2", "--picture", "plan.svg"]
    assert main(["plan", "--tables", str(tables), *options]) == 2
    printed = capsys.readouterr()
    assert "pip install matplotlib" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: command"),
        (["plan"], "required: --tables, --ranks"),
        (["plan", "--tables", "t", "--ranks", "2", "--strategy", "best"], "invalid choice: 'best'"),
    ],
)
def test_tells_how_to_call_it(arguments, words, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    printed = capsys.readouterr().err
    assert words in printed
    assert "usage: python -m keras_sparse" in printed


def test_helps_with_the_format(capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert '[{"name": "users", "rows": 1000000' in capsys.readouterr().out


def test_prints_json_from_which_the_plan_can_be_made(tables, tmp_path, capsys):
    options = ["--ranks", "4", "--json", "--save", str(tmp_path / "plan.json")]
    assert main(["plan", "--tables", str(tables), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = plan_placement([TableSpec(**each) for each in TABLES], 4)
    assert Plan.from_config(found["plan"]) == plan
    assert found["rank_bytes"] == plan.rank_bytes.tolist()
    assert found["step_seconds"] == max(found["rank_seconds"]) == plan.step_seconds


def written(tmp_path, content):
    path = tmp_path / "tables.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_tables(tmp_path):
    tables = [
        {"name": "users", "rows": 1000, "width": 16, "combiner": "sum", "hotness": [1, 20]},
        {"name": "queries", "rows": None, "width": 8, "num_slots": 0, "first_tier_bytes": 10**6},
    ]
    assert read_tables(written(tmp_path, tables), num_slots=2) == [
        TableSpec("users", 1000, 16, "sum", (1, 20), 2),
        TableSpec("queries", None, 8, first_tier_bytes=10**6),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[{'name'", "Tables must be JSON. Received: .*tables.json: Expecting property name.*line"),
        ("", "Tables must be JSON"),
        ({"users": {"rows": 10}}, 'must be a JSON list of objects such as {"name": "users"'),
        ([], r"and not empty. Received: .*tables.json: \[\]"),
        (["users"], r"a JSON object with the keys \('name', .*: tables\[0\] = \"users\""),
        (
            [{"name": "a", "rows": 1, "width": 1}, {"name": "b", "width": 1}],
            r"the key 'rows'; give null for a table of any keys. Received: .*tables\[1\] with",
        ),
        ([{"rows": 1, "width": 1}], "the key 'name'. Received"),
        (
            [{"name": "a", "rows": 1, "width": 1, "hotnes": 1}],
            r"; take 'hotness'. Received: .*tables\[0\] with the key 'hotnes'",
        ),
        (
            [{"name": "a", "rows": 1, "width": 1, "zzz": 1}],
            r"one of \(.*\). Received: .* key 'zzz'",
        ),
        ([{"name": "a", "rows": -1, "width": 1}], r"rows=-1, of .*tables.json: tables\[0\]"),
    ],
)
def test_says_where_a_file_is_wrong(tmp_path, content, words):
    with pytest.raises(ValueError, match=words.replace("{", re.escape("{"))):
        read_tables(written(tmp_path, content))


def test_says_where_a_type_is_wrong(tmp_path):
    words = r"`rows` must be an integer. .*'10' of type str, of .*tables.json: tables\[0\]"
    with pytest.raises(TypeError, match=words):
        read_tables(written(tmp_path, [{"name": "a", "rows": "10", "width": 1}]))


def test_a_file_must_be_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tables(tmp_path / "none.json")


def test_knows_its_size():
    table = TableSpec("t", 100, 8, num_slots=2)
    assert table.num_elements == 800
    assert table.bytes_of(100, 8) == 4 * 3 * 800
    assert table.bytes_of(10, 3) == 4 * 3 * 30
    assert not table.is_dynamic


def test_has_no_slots_if_it_is_not_trained():
    assert TableSpec("t", 100, 8, num_slots=2, trainable=False).bytes_of(100, 8) == 3200


@pytest.mark.parametrize(
    ("row_dtype", "slot_dtype", "row", "record"),
    [
        ("float32", "float32", 4 * 7, 3 * 4 * 7),
        ("bfloat16", "float32", 16, 16 + 2 * 4 * 7),
        ("float16", "bfloat16", 16, 3 * 16),  # 7 columns take 14 bytes, and 16 in whole words
        ("float32", "bfloat16", 4 * 7, 4 * 7 + 2 * 16),
    ],
)
def test_counts_the_bytes_of_its_dtypes(row_dtype, slot_dtype, row, record):
    table = TableSpec("t", 10, 7, num_slots=2, row_dtype=row_dtype, slot_dtype=slot_dtype)
    assert TableSpec.from_config(table.get_config()) == table
    assert (table.row_bytes(7), table.record_bytes(7)) == (row, record)
    assert table.bytes_of(10, 7) == 10 * record
    assert table.bytes_of(10, 1) == 10 * sum(
        2 * 2 if dtype != "float32" else 4 for dtype in (row_dtype, slot_dtype, slot_dtype)
    )
    plan = plan_placement([table], num_ranks=1, memory_budget=10 * record)
    assert plan.rank_bytes.tolist() == [10 * record]
    with pytest.raises(ValueError, match="`memory_budget` of all ranks together must hold"):
        plan_placement([table], num_ranks=1, memory_budget=10 * record - 1)


def test_a_config_saved_before_there_were_dtypes_is_of_float32():
    config = TableSpec("t", 10, 7).get_config()
    del config["row_dtype"], config["slot_dtype"]
    assert TableSpec.from_config(config) == TableSpec("t", 10, 7)


def test_a_dynamic_table_takes_what_its_first_tier_takes():
    table = TableSpec("keys", None, 8)
    assert table.is_dynamic
    assert table.num_elements is None
    assert table.bytes_of(None, 8) == 0
    assert TableSpec("keys", None, 8, first_tier_bytes=10**9).bytes_of(None, 8) == 10**9
    assert TableSpec("keys", None, 8, first_tier_bytes="1GB").first_tier_bytes == 10**9


@pytest.mark.parametrize("hotness", [3, [1, 2.5]])
def test_comes_back_from_its_config(hotness):
    table = TableSpec("t", None, 8, "mean", hotness, 1, first_tier_bytes=5)
    assert TableSpec.from_config(table.get_config()) == table


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": 3}, TypeError, "`name` must be a non-empty string. Received: name=3"),
        ({"name": ""}, TypeError, "`name` must be a non-empty string"),
        ({"rows": 0}, ValueError, "`rows` must be above 0. Received: rows=0"),
        ({"rows": 1e6}, TypeError, "`rows` must be an integer"),
        ({"width": None}, TypeError, "`width` must be an integer"),
        ({"rows": 2**50}, ValueError, "must take less than 9007199254740992 bytes"),
        ({"combiner": "max"}, ValueError, r"`combiner` must be one of \(None, 'sum'"),
        ({"hotness": -1}, ValueError, "`hotness` must not be below 0. Received: hotness=-1"),
        ({"hotness": [1, "2"]}, TypeError, r"`hotness\[1\]` must be a number"),
        ({"num_slots": -1}, ValueError, "`num_slots` must not be below 0"),
        ({"row_dtype": "int8"}, ValueError, "`row_dtype` must be one of .*row_dtype='int8'"),
        ({"slot_dtype": "float16"}, ValueError, "`slot_dtype` must be one of"),
        ({"trainable": 1}, TypeError, "`trainable` must be True or False"),
        (
            {"first_tier_bytes": 9},
            ValueError,
            "must be None for a static table.*rows=10, first_tier_bytes=9",
        ),
    ],
)
def test_refuses_what_is_no_table(arguments, error, words):
    with pytest.raises(error, match=words):
        TableSpec(**{"name": "t", "rows": 10, "width": 4, **arguments})
