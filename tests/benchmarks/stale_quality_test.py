import numpy as np
import pytest

from benchmarks import stale_quality
from movielens import SETTINGS
from movielens_data import parse
from stages import until_used

SMALL = ["--seeds", "1", "--epochs", "2", "--batch-size", "32"]
NUM_RATINGS, NUM_USERS, NUM_FILMS = 1000, 30, 20


@pytest.fixture
def ratings():
    """Every second film is liked."""
    generator = np.random.default_rng(1)
    users = generator.integers(NUM_USERS, size=NUM_RATINGS)
    films = generator.integers(NUM_FILMS, size=NUM_RATINGS)
    rates = np.where(films % 2, 1, 5)
    rated = map("{}\t{}\t{}\t0".format, users, films, rates)
    people = map("{}\t25\tF\t1\t2".format, range(NUM_USERS))
    shown = map("{0}\tF\t{0}\tWar".format, range(NUM_FILMS))
    return parse(
        table("user_id:\titem_id:\trating:\ttime:", rated),
        table("user_id:\tage:\tgender:\tjob:\tzip:", people),
        table("item_id:\ttitle:\tyear:\tgenre:", shown),
    )


def table(header, lines):
    return "\n".join([header, *lines]).encode()


def test_the_script_trains_a_pair_and_prints_both(ratings, in_this_process, monkeypatch, capfd):
    in_this_process(stale_quality)
    monkeypatch.setattr("movielens_data.load", lambda size, folder: ratings)
    options = ["--first-seed", "5", "--capacity", "3", "--learning-rate", "0.05"]

    def run(_):
        text = stale_quality.main([*SMALL, *options])
        assert text.startswith("1,000 ratings, capacity 3, 2 epochs of batches of 32.")
        (seed, *numbers, staleness), means = (
            line.strip("| ").split(" | ") for line in text.splitlines()[4:]
        )
        exact, stale, difference = map(float, numbers)
        assert seed == "5"
        assert means == ["mean", *numbers, staleness]
        assert min(exact, stale) > 0.9
        assert difference == pytest.approx(stale - exact, abs=1.1e-5)
        mean, most = map(float, staleness.split(", "))
        assert mean <= most <= 2 * 3
        printed = capfd.readouterr().out
        assert f"seed 5, 1 of 1: {numbers[2]}, mean so far {numbers[2]}\n" in printed
        assert text in printed
        return mean > 0

    until_used(run)


def test_where_no_update_moves_a_row_both_modes_are_equal(ratings):
    options = stale_quality.parse([*SMALL, "--learning-rate", "0"])

    def run(_):
        (pair,) = stale_quality.measure(ratings, options).values()
        assert pair["exact"][0] == pair["stale"][0]
        assert pair["exact"][1:] == (0, 0)
        assert pair["stale"][1] <= pair["stale"][2]
        return pair["stale"][1] > 0

    until_used(run)


def test_the_table_ends_with_the_means_and_their_errors():
    pairs = {
        0: {"exact": (0.90, 0, 0), "stale": (0.91, 3.5, 4)},
        1: {"exact": (0.92, 0, 0), "stale": (0.89, 4.0, 5)},
    }
    assert stale_quality.table(pairs).splitlines()[2:] == [
        "| 0 | 0.90000 | 0.91000 | +0.01000 | 3.50, 4 |",
        "| 1 | 0.92000 | 0.89000 | -0.03000 | 4.00, 5 |",
        "| mean | 0.91000 ± 0.01000 | 0.90000 ± 0.01000 | -0.01000 ± 0.02000 | 3.75, 5 |",
    ]


def test_trains_as_the_example_does():
    options, example = stale_quality.parse([]), SETTINGS["1m"]
    assert (options.epochs, options.batch_size) == (example.epochs, example.batch_size)
    assert options.learning_rate == example.learning_rate


def test_refuses_to_train_no_pair(capsys):
    with pytest.raises(SystemExit):
        stale_quality.parse(["--seeds", "0"])
    assert "--seeds must be at least 1. Received: --seeds 0" in capsys.readouterr().err
