"""Scripts assert nothing: one of them runs to its end, and all can be started."""

import importlib

import pytest

from benchmarks import __main__ as all_scripts
from benchmarks import tables


@pytest.mark.parametrize("name", all_scripts.SCRIPTS)
def test_a_script_has_a_title_and_can_be_called(name):
    module, *part = all_scripts.SCRIPTS[name]
    script = importlib.import_module(f"benchmarks.{module}")
    assert callable(script.main)
    assert script.TITLES[part[0]] if part else script.TITLE


@pytest.mark.slow("benchmark")
def test_a_script_times_each_peer_and_says_who_is_left_out(capfd):
    options = "--rounds 1 --steps 2 --columns adagrad --workload-scale 0.001"
    text = tables.main([*options.split(), "--peers", "keras", "torch"], "W2")
    assert "\n| keras_sparse | " in text
    assert "\n| keras.layers.Embedding | " in text
    assert ("Left out: torch sparse: " in text) != ("| torch sparse | " in text)
    assert text in capfd.readouterr().out
