import dataclasses
import json
import re
import subprocess
import sys

import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.__main__ import main
from keras_sparse.commands import bench_steps
from keras_sparse.commands import info_command
from keras_sparse.commands import parser
from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import STRATEGIES
from ranks import needs_horovod

COMMANDS = ("info", "plan", "inspect", "bench", "install-horovod", "launch")


def help_of(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_command(capsys):
    text = help_of([], capsys)
    assert tuple(re.findall(r"^    ([a-z-]+)", text, re.MULTILINE)) == COMMANDS
    assert "exit status" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_does_and_what_each_option_is(command, capsys):
    about, _, options = help_of([command], capsys).partition("options:\n")
    assert len(about.partition("\n\n")[2].split()) > 10
    for option in re.split(r"\n(?=  -)", options):
        assert re.search(r"\s{2,}\w", option.strip()), option


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bench", "--workloads", "none"],
        ["inspect"],
        ["no_such_command"],
        ["launch", "--ranks", "2"],
        ["launch", "--ranks", "0", "train.py"],
        ["launch", "-H", "alpha:2", "--hosts-script", "hosts.sh", "train.py"],
    ],
)
def test_a_call_that_is_none_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m keras_sparse" in capsys.readouterr().err


def test_the_parser_has_the_choices_of_the_commands():
    assert parser.STRATEGIES == STRATEGIES
    assert tuple(bench_steps.WORKLOADS) == parser.WORKLOADS
    defaults = dataclasses.asdict(CostModel())
    assert {name: defaults[name] for name in parser.COST_MODEL} == parser.COST_MODEL


@needs_horovod
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "--ranks must be given"),
        (["--ranks", "2", "--min-ranks", "3"], "--ranks must be between --min-ranks and"),
        (["--ranks", "2", "--max-ranks", "1"], "--ranks must be between --min-ranks and"),
        (["-H", "alpha:1", "--ranks", "2"], "--hosts must have room for --min-ranks"),
        (["-H", "alpha"], "such as alpha:2,beta:2. Received: 'alpha'"),
        (["--ranks", "2"], "The script must exist. Received: train.py"),
    ],
)
def test_launch_refuses_ranks_that_do_not_fit(options, error, capsys):
    assert main(["launch", *options, "train.py"]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow("starts processes")
def test_help_needs_no_tensorflow_and_a_command_prints_no_notes_of_it(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)  # or it stays as it is
    command = [sys.executable, "-X", "importtime", "-m", "keras_sparse"]
    helped = subprocess.run([*command, "plan", "--help"], capture_output=True, text=True)
    assert helped.returncode == 0
    assert "keras_sparse.commands.parser" in helped.stderr
    assert "tensorflow" not in helped.stderr
    del command[1:3]
    told = subprocess.run([*command, "info"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("keras_sparse ")
    assert told.stderr == ""


@pytest.mark.slow("starts processes")
def test_a_failure_is_status_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["install-horovod", "--force"]) == 1
    assert "must be a folder to write into" in capsys.readouterr().err


def test_says_what_is_installed_and_built(capsys):
    assert main(["info"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    values = {name: value.strip() for name, value in lines.items()}
    assert values["keras_sparse"] == keras_sparse.__version__
    assert values["tensorflow"] == tf.__version__
    assert "DRAM" in values["storage types"].split(", ")
    assert values["memory"].endswith("B")


def test_storage_types_are_those_that_can_be_made(tmp_path, capsys):
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == info_command.collect().keys()
    for each in keras_sparse.StorageType:
        path = tmp_path if len(each.tiers) > 1 else None
        try:
            keras_sparse.StorageOption(each, path)
        except NotImplementedError:
            assert each.value not in found["storage types"]
        else:
            assert each.value in found["storage types"]


def test_says_what_is_missing_and_how_to_get_it(monkeypatch, capsys):
    missing = {"horovod": None, "built with cuda": None, "lower tiers": [], "gpus": 0}
    monkeypatch.setattr(info_command, "collect", lambda: missing)
    assert main(["info"]) == 0
    out = re.sub(" {3,}", "  ", capsys.readouterr().out)
    assert "not installed; for several ranks: python -m keras_sparse install-horovod" in out
    assert "lower tiers  none" in out
    assert "built with cuda  no, it is a build without CUDA" in out
    assert "gpus  none that TensorFlow sees" in out


@pytest.mark.parametrize(
    ("version", "architectures", "found", "gpus"),
    [("", "", None, []), ("13.0.88", "75-real;90a-real;120", "13.0.88", ["75", "90a", "120"])],
)
def test_says_which_gpus_it_was_built_for(version, architectures, found, gpus, monkeypatch):
    monkeypatch.setattr(info_command._build_info, "CUDA_VERSION", version)
    monkeypatch.setattr(info_command._build_info, "CUDA_ARCHITECTURES", architectures)
    collected = info_command.collect()
    assert (collected["built with cuda"], collected["built for gpus"]) == (found, gpus)
