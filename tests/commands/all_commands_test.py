import dataclasses
import re
import subprocess
import sys

import pytest

from keras_sparse.__main__ import main
from keras_sparse.commands import bench_steps
from keras_sparse.commands import parser
from keras_sparse.distribute.planner.cost_model import CostModel
from keras_sparse.distribute.planner.placement import STRATEGIES

COMMANDS = ("info", "plan", "inspect", "bench", "install-horovod")


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
    "arguments", [[], ["bench", "--workloads", "none"], ["inspect"], ["no_such_command"]]
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
