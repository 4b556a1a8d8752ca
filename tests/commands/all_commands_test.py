import re

import pytest

from keras_sparse.__main__ import main

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
