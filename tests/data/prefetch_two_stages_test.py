"""Two stages of one model that are ahead at once change no bit of its training."""

import pytest
import tensorflow as tf

import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups
from stages import keep_stages
from table_twins import small


def train_in_turns(model, *datasets, stages=()):
    """Trains a step on a batch of each dataset in turn, until one ends.

    The first steps let the stages come to their batches.

    Returns:
        The lookups of each dataset's steps that were staged and used, in the datasets' order.
    """

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, variables), variables)

    model.optimizer.build(model.trainable_variables)
    used = [0] * len(datasets)
    for number, batches in enumerate(zip(*datasets, strict=True)):
        for turn, (x, y) in enumerate(batches):
            before = cases.prefetch_stats(model)["used"]
            if stages and number == 0:
                stages[turn].wait()
            step(x, y)
            used[turn] += cases.prefetch_stats(model)["used"] - before
    return used


@pytest.mark.parametrize("of_other", [(1, 2), (2, 6)], ids=["alike", "further ahead"])
@pytest.mark.parametrize("seed", [0, 1], ids=["same batches", "other batches"])
def test_two_datasets_in_turns_train_as_without_stages(seed, of_other, tmp_path, monkeypatch):
    data, other = cases.make_data(), cases.make_data(seed)
    paths = iter([tmp_path / "a", tmp_path / "b"])
    plain, model = cases.make_model(), cases.make_model(lambda: small(next(paths)))
    assert train_in_turns(plain, data, other) == [0, 0]
    stages = keep_stages(monkeypatch)
    staged = [prefetch_lookups(data, model, 1, 2), prefetch_lookups(other, model, *of_other)]
    used = train_in_turns(model, *staged, stages=stages)
    assert all(number > 0 for number in used), used
    cases.assert_same(model, plain)
    stats = cases.prefetch_stats(model)
    assert stats["staged"] == 2 * 2 * cases.BATCHES, "of two tables, of two datasets"
    assert stats["used"] + stats["missed"] == stats["staged"]
    assert stats["staleness_max"] == 0
    assert model.get_layer("of_a").stats()["tiers"]["SSDHASH"]["read_bytes"] > 0
