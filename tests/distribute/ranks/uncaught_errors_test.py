import sys

import pytest

from keras_sparse.distribute.ranks.uncaught_errors import add_rank_error_notes
from keras_sparse.distribute.ranks.uncaught_errors import explain_uncaught_errors


@pytest.mark.parametrize(
    "message",
    [
        "Horovod has been shut down. This was",
        "[/src/gloo/transport/tcp/pair.cc:589] Read error",
        "ncclAllReduce failed: unhandled system error",
    ],
)
def test_says_that_another_rank_is_the_cause(message):
    error = RuntimeError(message)
    add_rank_error_notes(error, "[rank 0 of 2] ")
    (note,) = error.__notes__
    assert note.startswith("[rank 0 of 2] This rank ends because another rank has ended")


def test_says_which_rank_fails():
    last = "[rank 1 of 2] This rank ends with the error above, and the others with it."
    error = ValueError("no such file:\n  File 'train.py'\n\n  'a'")
    add_rank_error_notes(error, "[rank 1 of 2] ")
    assert error.__notes__ == ["[rank 1 of 2] ValueError: no such file: 'a'", last]
    for message in ("[rank 1 of 2] bad id", "Graph execution error:\n[rank 1 of 2] bad id"):
        error = ValueError(message)
        add_rank_error_notes(error, "[rank 1 of 2] ")
        assert error.__notes__ == [last]


def test_has_nothing_to_say_where_the_user_ends_it():
    error = KeyboardInterrupt()
    add_rank_error_notes(error, "[rank 1 of 2] ")
    assert not hasattr(error, "__notes__")


def test_what_showed_errors_before_still_does(monkeypatch):
    shown = []
    monkeypatch.setattr("sys.excepthook", lambda *arguments: shown.append(arguments))
    explain_uncaught_errors("[rank 1 of 2] ")
    error = ValueError("no such file")
    sys.excepthook(ValueError, error, None)
    assert shown == [(ValueError, error, None)]
    assert error.__notes__
