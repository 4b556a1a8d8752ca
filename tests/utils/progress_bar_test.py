import re

import keras
import pytest

from checkpoint_cases import make_model
from checkpoint_cases import train_all_keys
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify
from keras_sparse.utils import progress_bar
from keras_sparse.utils.progress_bar import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at `clock[0]`."""
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("seconds", "is_shown", "added", "shown"),
    [(0, True, 10, ""), (3, False, 10, ""), (3, True, 50, "10/10")],
    ids=["quick", "off", "more than expected"],
)
def test_shows_a_bar_of_what_takes_long(seconds, is_shown, added, shown, clock, capsys):
    bar = Progress(10, "rows", is_shown=is_shown)
    clock[0] += seconds
    bar.add(added)
    bar.close()
    printed = capsys.readouterr().out
    assert shown in printed
    assert bool(printed) == bool(shown)


def test_a_bar_goes_on_up_to_its_end(clock, capsys):
    bar = Progress(2500, "thousand rows", 1000)
    bar.add(1000)
    clock[0] += 3
    bar.add(100)
    assert "1/3" in capsys.readouterr().out
    bar.close()
    assert "3/3" in capsys.readouterr().out


def full_bars(capsys):
    """What each bar that was shown up to its end counted."""
    # Spaces follow where its last time is the shorter one.
    return re.findall(r"(\d)/\1\D.*/(thousand rows(?: checked)?)", capsys.readouterr().out)


CHECKED, ROWS = ("3", "thousand rows checked"), ("3", "thousand rows")


def test_saving_and_loading_weights_show_a_bar_a_table(monkeypatch, capsys, tmp_path):
    weights, file = tmp_path / "model.weights.h5", tmp_path / "model.keras"
    train_all_keys(model := make_model())  # two tables of 3000 rows
    other = make_model()
    monkeypatch.setattr(progress_bar, "_SECONDS_UNTIL_SHOWN", 0)
    model.save_weights(weights)
    assert full_bars(capsys) == [ROWS] * 2
    other.load_weights(weights)
    assert full_bars(capsys) == [CHECKED] * 2 + [ROWS] * 2
    verify(weights)
    assert full_bars(capsys) == [CHECKED] * 2
    model.save(file)
    assert full_bars(capsys) == [ROWS] * 2
    keras.saving.load_model(file)
    assert full_bars(capsys) == [CHECKED] * 2 + [ROWS] * 2


def test_checkpoints_show_a_bar_for_all_tables(monkeypatch, capsys, tmp_path):
    train_all_keys(model := make_model())
    other = make_model()
    monkeypatch.setattr(progress_bar, "_SECONDS_UNTIL_SHOWN", 0)
    first = save_checkpoint(model, tmp_path / "first")
    assert full_bars(capsys) == [("6", "thousand rows")]
    train_all_keys(model)
    save_delta(model, tmp_path / "delta")
    assert full_bars(capsys) == [("6", "thousand rows")]
    load_checkpoint(other, first)
    assert full_bars(capsys) == [("6", "thousand rows checked"), ("6", "thousand rows")]
    verify(first)
    assert full_bars(capsys) == [("6", "thousand rows checked")]
    load_checkpoint(other, first, verbose=False)
    save_checkpoint(other, tmp_path / "second", verbose=False)
    assert full_bars(capsys) == []


def test_quick_saves_and_loads_show_none(capsys, tmp_path):
    train_all_keys(model := make_model())
    model.save_weights(tmp_path / "model.weights.h5")
    model.load_weights(tmp_path / "model.weights.h5")
    load_checkpoint(model, save_checkpoint(model, tmp_path / "saved"))
    assert capsys.readouterr().out == ""
