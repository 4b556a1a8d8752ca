import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import table_twins
from keras_sparse.callbacks import TierStats
from stages import keep_stages

pytestmark = pytest.mark.usefixtures("write_in_the_step")


IDS = np.random.default_rng(0).integers(0, 5000, (640, 4))
BATCHES = tf.data.Dataset.from_tensor_slices((IDS, np.ones((640, 1)))).batch(64)


def make_model(storage=None):
    inputs = keras.Input((4,), dtype="int64")
    layer = keras_sparse.layers.Embedding(None, 64, "sum", storage=storage, name="items")
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return model


def fit(model, *callbacks, epochs=2):
    model.fit(BATCHES, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)


def test_writes_all_that_the_layer_says_after_each_epoch(tmp_path, written):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "ssd", [200_000])
    model = make_model(storage)
    fit(model, TierStats(tmp_path / "logs", counters=True))
    values = written(tmp_path / "logs")
    stats = model.get_layer("items").stats()
    stats |= {f"prefetch/{name}": number for name, number in stats.pop("prefetch").items()}
    tiers = stats.pop("tiers")
    assert list(tiers) == ["DRAM", "SSDHASH"]
    for name, number in stats.items():
        assert sorted(values[f"items/embeddings/{name}"]) == [10, 20]
        assert values[f"items/embeddings/{name}"][20] == pytest.approx(number)
    for tier, counts in tiers.items():
        for name, number in counts.items():
            assert values[f"items/embeddings/{tier}/{name}"][20] == pytest.approx(number)
        rates = values[f"items/embeddings/{tier}/hit_rate"]
        assert all(0 <= rate <= 1 for rate in rates.values())
    # The second epoch has met all its ids before: the first tier or the disk has them.
    assert values["items/embeddings/SSDHASH/hit_rate"][20] == 1
    assert values["items/embeddings/DRAM/hit_rate"][10] < 1


def test_charts_are_few_and_their_rates_add_up_to_the_counts(tmp_path, written):
    model = make_model(keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "ssd", [200_000]))
    begin = time.monotonic()
    fit(model, TierStats(tmp_path / "logs", update_freq=5))
    seconds = time.monotonic() - begin
    values = {
        tag.removeprefix("items/embeddings/"): steps
        for tag, steps in written(tmp_path / "logs").items()
    }
    of_a_tier = {"rows", "bytes", "hit_rate", "hits_per_step"}
    of_ssd = {*of_a_tier, "read_bytes_per_second", "write_bytes_per_second"}
    assert values.keys() == {
        "waited_seconds_per_step",
        *(f"DRAM_{name}" for name in of_a_tier),
        *(f"SSDHASH_{name}" for name in of_ssd),
    }
    stats = model.get_layer("items").stats()
    for tier, counts in stats["tiers"].items():
        per_step = values[f"{tier}_hits_per_step"]
        assert sum(5 * rate for rate in per_step.values()) == pytest.approx(counts["hits"])
        assert values[f"{tier}_rows"][20] == counts["rows"]
    waited = values["waited_seconds_per_step"].values()
    assert sum(5 * rate for rate in waited) == pytest.approx(stats["waited_seconds"])
    # Of the four writings some second had at least as many bytes as the mean one.
    mean = stats["tiers"]["SSDHASH"]["read_bytes"] / seconds
    assert max(values["SSDHASH_read_bytes_per_second"].values()) >= mean > 0


def test_what_is_constant_has_no_chart_until_it_moves(tmp_path, written):
    inputs = keras.Input((4,), dtype="int64")
    layer = keras_sparse.layers.Embedding(5000, 2, "sum", name="items")
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    fit(model, TierStats(tmp_path / "static"))
    values = written(tmp_path / "static")
    assert values["items/embeddings/DRAM_hits_per_step"] == {10: 256, 20: 256}
    # The bytes are those of slots as well, which came with the first step.
    assert values.keys() == {f"items/embeddings/DRAM_{name}" for name in ("bytes", "hits_per_step")}
    model, callback = make_model(), TierStats(tmp_path / "dynamic")
    fit(model, callback, epochs=1)
    fit(model, callback, epochs=1)  # all rows are there, and the charts go on
    values = written(tmp_path / "dynamic")
    assert values["items/embeddings/DRAM_hit_rate"].keys() == {10, 20}
    assert values["items/embeddings/DRAM_hit_rate"][20] == 1
    assert "items/embeddings/waited_seconds_per_step" not in values
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")  # whose steps begin anew
    fit(model, TierStats(tmp_path / "others", update_freq=5), epochs=1)
    assert sorted(written(tmp_path / "others")["items/embeddings/DRAM_hit_rate"]) == [5, 10]


def test_charts_say_in_tensorboard_what_they_show(tmp_path):
    fit(make_model(), TierStats(tmp_path), epochs=1)
    (path,) = tmp_path.glob("*.tiers")
    said = {
        value.tag: value.metadata.summary_description
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert said["items/embeddings/DRAM_rows"] == "Rows in this tier."


def test_prints_what_tiers_have_and_had_of_each_training(tmp_path, capsys):
    model = make_model(table_twins.small(tmp_path / "ssd"))
    before = {"DRAM": (0, 0), "SSDHASH": (0, 0)}
    for _ in range(2):
        fit(model, TierStats(None, verbose=1), epochs=1)
        after, texts = {}, []
        for name, counts in model.get_layer("items").stats()["tiers"].items():
            after[name] = counts["hits"], counts["misses"]
            hits, misses = np.subtract(after[name], before[name])
            texts.append(
                f"{name} {counts['rows']:,} rows, {100 * hits / (hits + misses):.2f}% hits"
            )
        assert capsys.readouterr().out == f"tiers, items/embeddings: {'; '.join(texts)}\n"
        before = after


def test_says_what_became_of_lookups_that_were_staged(capsys):
    model = make_model()
    ahead = keras_sparse.data.prefetch_lookups(BATCHES, model, 1, 2, mode="stale")
    callbacks = [TierStats(None, verbose=1)]
    model.fit(ahead, epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
    used = model.get_layer("items").stats()["prefetch"]["used"]
    line = capsys.readouterr().out
    assert line.startswith(f"prefetch_lookups, items/embeddings: {used} of 20 lookups were ready;")
    assert len(line.splitlines()) == 1
    model.fit(BATCHES, verbose=0, shuffle=False, callbacks=callbacks)
    assert capsys.readouterr().out == "", "of this training none"


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_writes_what_became_of_lookups_that_were_staged(mode, tmp_path, monkeypatch, written):
    model = make_model(table_twins.small(tmp_path / "ssd"))
    layer = model.get_layer("items")
    stages = keep_stages(monkeypatch)
    ahead = keras_sparse.data.prefetch_lookups(BATCHES, model, 1, 2, mode)
    begin = time.monotonic()
    callbacks = [TierStats(tmp_path / "logs", counters=True), *stages]
    model.fit(ahead, epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
    seconds = time.monotonic() - begin
    values = written(tmp_path / "logs")
    prefix = "items/embeddings/prefetch/"
    of_prefetch = {name: steps for name, steps in values.items() if name.startswith(prefix)}
    stats = layer.stats()["prefetch"]
    for name, number in stats.items():
        assert of_prefetch[f"{prefix}{name}"][20] == pytest.approx(number)
    used = values["items/embeddings/prefetch_used_rate"]
    assert 10 * (used[10] + used[20]) == pytest.approx(stats["used"], rel=1e-5)
    assert of_prefetch[f"{prefix}staged"] == {10: 10, 20: 20}
    assert 0 < of_prefetch[f"{prefix}used"][10] < stats["used"]
    assert stats["used"] + stats["dropped"] == stats["used"] + stats["missed"] == 20
    assert 0 < stats["hidden_seconds"] < seconds
    assert 0 <= stats["waited_seconds"] < seconds
    model.evaluate(BATCHES, verbose=0)
    assert layer.stats()["prefetch"] == {**stats, "missed": stats["missed"] + len(BATCHES)}


@pytest.mark.parametrize(
    ("steps_per_execution", "steps"), [(1, [4, 8, 12, 16, 20]), (5, [5, 10, 15, 20])]
)
def test_writes_every_so_many_steps(steps_per_execution, steps, tmp_path, written):
    callback, model = TierStats(tmp_path / "logs", update_freq=4), make_model()
    model.compile(model.optimizer, loss="mse", steps_per_execution=steps_per_execution)
    fit(model, callback, epochs=1)
    fit(model, callback, epochs=1)  # goes on where it was
    assert sorted(written(tmp_path / "logs")["items/embeddings/DRAM_rows"]) == steps


def test_numbers_of_tiers_add_up(tmp_path):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "ssd", [200_000])
    model = make_model(storage)
    layer = model.get_layer("items")
    fit(model, epochs=1)
    stats = layer.stats()
    first, second = stats["tiers"]["DRAM"], stats["tiers"]["SSDHASH"]
    assert first["rows"] + second["rows"] == stats["rows"] == len(np.unique(IDS))
    assert first["bytes"] <= 200_000 * 1.05
    assert second["bytes"] >= second["rows"] * (64 * 8 + 12)
    assert second["memory_bytes"] > 0
    assert first["hits"] + first["misses"] == stats["lookups"] == IDS.size
    assert first["promotions"] == second["promotions"]
    assert first["demotions"] == second["demotions"] > 0
    assert second["rows"] == second["demotions"] - second["promotions"]
    assert second["read_bytes"] == second["hits"] * 64 * 8
    assert second["write_bytes"] == second["demotions"] * 64 * 8
    assert stats["waited_seconds"] > 0
    # Evaluation reads rows where they are.
    model.evaluate(BATCHES, verbose=0)
    after = layer.stats()
    assert after["hits"] - stats["hits"] == IDS.size
    assert after["tiers"]["SSDHASH"]["rows"] == second["rows"]
    assert after["tiers"]["SSDHASH"]["hits"] > second["hits"]


def test_numbers_of_three_tiers_add_up(tmp_path):
    model = make_model(table_twins.small(tmp_path / "rows", "DRAM_PMEM_SSDHASH"))
    fit(model, epochs=1)
    stats = model.get_layer("items").stats()
    first, *lower = stats["tiers"].values()
    assert all(number >= 0 for tier in stats["tiers"].values() for number in tier.values())
    assert all(tier["rows"] > 0 for tier in stats["tiers"].values())
    assert first["promotions"] == sum(tier["promotions"] for tier in lower) > 0
    assert first["rows"] == stats["created_rows"] - first["demotions"] + first["promotions"]
    # Rows that move on from the second tier come down to the third one as well.
    middle, last = lower
    moved = middle["demotions"] - middle["promotions"] - middle["rows"]
    assert moved > 0
    assert first["demotions"] == middle["demotions"] + last["demotions"] - moved
    assert last["rows"] == last["demotions"] - last["promotions"]


def test_memory_alone_is_one_tier():
    model = make_model()
    model.predict(np.arange(4)[None], verbose=0)
    (tier,) = model.get_layer("items").stats()["tiers"].items()
    assert tier[0] == "DRAM"
    assert tier[1]["misses"] == 4


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"update_freq": 0}, ValueError, "`update_freq` must be above 0"),
        ({"update_freq": "batch"}, TypeError, '`update_freq` must be "epoch", or an integer'),
        ({"log_dir": None}, ValueError, "`log_dir` must be a folder, .*log_dir=None, verbose=0"),
        ({"log_dir": 3}, TypeError, "`log_dir` must be a path: .*3 of type int"),
        ({"verbose": 2}, ValueError, r"`verbose` must be one of .*verbose=2"),
        ({"counters": 1}, TypeError, "`counters` must be "),
        ({"log_dir": ""}, ValueError, "`log_dir` must be a path that is not empty"),
        ({"log_dir": __file__}, NotADirectoryError, "`log_dir` must be a folder"),
    ],
)
def test_refuses(kwargs, error, message, tmp_path):
    with pytest.raises(error, match=message):
        TierStats(**{"log_dir": tmp_path, **kwargs})


def test_refuses_a_model_without_tables(tmp_path):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="must be given to a model with tables of keras_sparse"):
        model.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0, callbacks=[TierStats(tmp_path)])
