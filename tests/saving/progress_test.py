import pytest

from keras_sparse.saving import progress
from keras_sparse.saving.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at `clock[0]`."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_what_is_quick_shows_no_bar(clock, capsys):
    bar = Progress(10, "rows")
    for _ in range(10):
        bar.add(1)
    bar.close()
    assert capsys.readouterr().out == ""


def test_what_takes_long_shows_a_bar_up_to_its_end(clock, capsys):
    bar = Progress(2500, "thousand rows", 1000)
    bar.add(1000)
    clock[0] += 3
    bar.add(100)
    assert "1/3" in capsys.readouterr().out
    bar.close()
    assert "3/3" in capsys.readouterr().out


def test_more_than_was_expected_does_not_pass_the_end(clock, capsys):
    bar = Progress(2, "rows")
    clock[0] += 3
    bar.add(50)
    bar.close()
    assert "2/2" in capsys.readouterr().out


def test_a_bar_may_be_off(clock, capsys):
    bar = Progress(2, "rows", is_shown=False)
    clock[0] += 3
    bar.add(2)
    bar.close()
    assert capsys.readouterr().out == ""
