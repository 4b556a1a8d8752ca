import json
import pathlib
import sys

import pytest

from keras_sparse.__main__ import main
from keras_sparse.distribute import CostModel
from keras_sparse.distribute import Plan
from keras_sparse.distribute import plan_placement
from keras_sparse.distribute import TableSpec

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
    assert "error: `memory_budget` of all ranks must hold" in printed.err
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
