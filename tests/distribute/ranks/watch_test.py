import sys

import pytest

from keras_sparse.distribute.ranks import runtime
from keras_sparse.distribute.ranks.uncaught_errors import add_rank_error_notes
from keras_sparse.distribute.ranks.uncaught_errors import explain_uncaught_errors
from keras_sparse.distribute.ranks.watch import is_stall
from keras_sparse.distribute.ranks.watch import stall_text


@pytest.mark.parametrize(
    ("of_ranks", "expected"),
    [
        ([{"a": 1}, {"b": 1}], True),
        ([{"a": 1}, {"a": 1}, {"b": 1}], True),
        ([{"a": 1}, {}], False),  # it computes, or stands in a debugger
        ([{"a": 1}, {"a": 2}], False),  # all are there: it goes on
        ([{"a": 1, "b": 2}, {"b": 1}], False),
    ],
)
def test_ranks_wait_for_good_where_each_waits_and_no_call_has_all(of_ranks, expected):
    assert is_stall(of_ranks) == expected


@pytest.mark.parametrize(
    ("call", "meaning"),
    [
        ("keras_sparse.exchange_0.step.1.ids", "the lookup of a batch"),
        ("keras_sparse.exchange_12.step.1.gradients", "the gradients of a batch, for tables"),
        ("keras_sparse.optimizer_0.step.1.dense.float32", "a step of `DistributedOptimizer`"),
        ("average_metrics.states", "`MetricAverage` or `average_metrics`, after the last batch"),
        ("keras_sparse.errors_on_all_ranks.save_begins", "saving or loading"),
        ("mine", "a call"),
    ],
)
def test_says_what_each_rank_waits_for(call, meaning):
    text = stall_text("[rank 1 of 2] ", 30.0, [{call: 3}, {"other": 4}])
    assert text.startswith("[rank 1 of 2] This rank ends because all ranks have waited")
    assert "for 30 s, in different calls. All must call `fit`" in text
    assert text.endswith(f"Received: rank 0 in {meaning} ('{call}'), rank 1 in a call ('other')")


@pytest.mark.parametrize(("text", "seconds"), [(None, 30), ("", 30), ("0", 0), ("2.5", 2.5)])
def test_the_limit_is_a_number_of_the_environment(text, seconds, monkeypatch):
    if text is None:
        monkeypatch.delenv("KERAS_SPARSE_STALL_SECONDS", raising=False)
    else:
        monkeypatch.setenv("KERAS_SPARSE_STALL_SECONDS", text)
    assert runtime.stall_seconds() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_another_limit_is_an_error(text, monkeypatch):
    monkeypatch.setenv("KERAS_SPARSE_STALL_SECONDS", text)
    with pytest.raises(ValueError, match=f"must be a number of seconds.*Received.*'{text}'"):
        runtime.stall_seconds()


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
