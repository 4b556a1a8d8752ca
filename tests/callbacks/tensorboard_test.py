"""Histograms and the projector of tables, by a subclass of Keras' callback."""

import copy
import pathlib

import keras
import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins import projector

import keras_sparse
from keras_sparse.callbacks import TensorBoard
from keras_sparse.callbacks.tensorboard_charts import all_counters
from keras_sparse.callbacks.tensorboard_charts import description_of
from keras_sparse.callbacks.tensorboard_charts import numbers_at_rest
from keras_sparse.callbacks.tensorboard_charts import tensorboard_charts
from keras_sparse.layers import Embedding

IDS = np.arange(12).reshape(4, 3)


def make_model(**tables):
    """A layer of its own a table, or a group of them."""
    ids = keras.Input((3,), dtype="int64")
    rows = [Embedding(dim, 2, "sum", "ones", name=name)(ids) for name, dim in tables.items()]
    model = keras.Model(ids, keras.layers.Dense(1, name="dense")(sum(rows)))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    return model


def fit(model, callback, epochs=2):
    model.fit(IDS, np.ones((4, 1)), verbose=0, epochs=epochs, callbacks=[callback])
    return model


def histograms(folder):
    """The sums of the last histogram's counts, by tag."""
    events = event_accumulator.EventAccumulator(str(folder / "train"))
    events.Reload()
    return {tag: events.Tensors(tag)[-1].tensor_proto for tag in events.Tags()["tensors"]}


def read_config(folder):
    config = projector.ProjectorConfig()
    text_format.Parse((folder / "projector_config.pbtxt").read_text(), config)
    return config


def test_writes_histograms_of_a_sample_of_rows(tmp_path):
    model = make_model(words=None, films=1000)
    fit(model, TensorBoard(tmp_path, histogram_freq=1, write_images=True, table_rows=5))
    found = histograms(tmp_path)
    for name, num_rows in {"words/embeddings": 5, "films/embeddings": 5, "kernel": 1}.items():
        (tag,) = (each for each in found if each.endswith(f"{name}/histogram"))
        values = np.frombuffer(found[tag].tensor_content, np.float64).reshape(-1, 3)
        assert values[:, 2].sum() == num_rows * 2
        low, high = values[:, 0].min(), values[:, 1].max()
        if name == "films/embeddings":  # the rows of ids 0, 249, 499, 749 and 999
            assert low != high


@pytest.mark.parametrize("labels", [None, {"words": {3: "sun\t1", 7: "moon", 99: "no row"}}])
def test_the_projector_has_rows_with_their_labels(labels, tmp_path):
    model = fit(
        make_model(words=None, films=4 + 8),
        TensorBoard(tmp_path, embeddings_freq=1, labels=labels),
    )
    config = read_config(tmp_path)
    assert [each.tensor_name for each in config.embeddings] == [
        "words/embeddings",
        "films/embeddings",
    ]
    words = config.embeddings[0]
    lines = (tmp_path / words.metadata_path).read_text().splitlines()
    rows = np.loadtxt(tmp_path / words.tensor_path, delimiter="\t", ndmin=2)
    assert lines[0] == "key\tlabel"
    keys = [int(line.split("\t")[0]) for line in lines[1:]]
    assert sorted(keys) == (list(range(12)) if labels is None else [3, 7])
    if labels is not None:
        assert lines[1:] == ["3\tsun 1", "7\tmoon"]
    np.testing.assert_allclose(rows, model.get_layer("words").find(keys).rows, rtol=1e-5)


def test_keras_own_callback_shows_no_tables(tmp_path):
    """Keras gives no control there: `docs/explanation/keras-integration.md` says what it does."""
    model = make_model(words=None)
    with pytest.raises(TypeError, match="cannot be computed with as a whole"):
        fit(model, keras.callbacks.TensorBoard(tmp_path, histogram_freq=1))
    fit(model, keras.callbacks.TensorBoard(tmp_path, embeddings_freq=1), epochs=1)
    assert not read_config(tmp_path).embeddings
    page = pathlib.Path(__file__).parents[2] / "docs/explanation/keras-integration.md"
    for option in ("histogram_freq", "embeddings_freq"):
        assert f"`keras.callbacks.TensorBoard({option}=...)`" in page.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"labels": {"wrds": {1: "a"}}},
            r"of the model: .'embeddings', 'words', .*: .'wrds'.$",
        ),
        ({"labels": {"words": ["a"]}}, r"must be a dict of dicts.*labels={'words': \['a'\]}"),
        ({"labels": {"words": {"k": "a"}}}, "`keys` must be one list of integers"),
        ({"embeddings_metadata": "meta.tsv"}, r"labels={\"layer\": {key: \"label\"}}"),
        ({"table_rows": 0}, "`table_rows` must be above 0"),
    ],
)
def test_refuses_what_it_does_not_know(options, words, tmp_path):
    model = make_model(words=None)
    with pytest.raises((TypeError, ValueError), match=words):
        fit(model, TensorBoard(tmp_path, **options))
    assert int(model.optimizer.iterations) == 0


def test_a_norm_over_all_weights_names_what_to_leave_out():
    with pytest.raises(TypeError, match=r"Exclude tables from a norm.*embeddings_regularizer"):
        [keras.ops.norm(each) for each in make_model(words=None).weights]


IDLE = {"rows": 0, "bytes": 0, "hits": 0, "misses": 0, "read_bytes": 0, "write_bytes": 0}
BEFORE = {
    "waited_seconds": 1.0,
    "tiers": {"DRAM": {**IDLE, "hits": 100, "misses": 20}, "SSDHASH": {**IDLE, "read_bytes": 50}},
    "prefetch": {"used": 4, "missed": 4, "waited_seconds": 0.5, "hidden_seconds": 0.0},
}
AFTER = {
    "waited_seconds": 3.0,
    "tiers": {
        "DRAM": {**IDLE, "rows": 7, "bytes": 900, "hits": 160, "misses": 40},
        "SSDHASH": {
            "rows": 3, "bytes": 300, "hits": 5, "misses": 15, "read_bytes": 850, "write_bytes": 40,
        },
    },
    "prefetch": {"used": 13, "missed": 5, "waited_seconds": 1.5, "hidden_seconds": 6.0},
}  # fmt: skip


def test_rates_are_what_came_in_between_by_steps_or_seconds():
    assert tensorboard_charts(BEFORE, AFTER, steps=10, seconds=4.0) == {
        "waited_seconds_per_step": 0.2,
        "DRAM_rows": 7,
        "DRAM_bytes": 900,
        "DRAM_hit_rate": 0.75,
        "DRAM_hits_per_step": 6.0,
        "DRAM_read_bytes_per_second": 0.0,
        "DRAM_write_bytes_per_second": 0.0,
        "SSDHASH_rows": 3,
        "SSDHASH_bytes": 300,
        "SSDHASH_hit_rate": 0.25,
        "SSDHASH_hits_per_step": 0.5,
        "SSDHASH_read_bytes_per_second": 200.0,
        "SSDHASH_write_bytes_per_second": 10.0,
        "prefetch_used_rate": 0.9,
        "prefetch_waited_seconds_per_step": 0.1,
        "prefetch_hidden_seconds_per_step": 0.6,
    }


def test_there_is_no_rate_of_no_time_nor_of_counts_that_began_anew():
    charts = tensorboard_charts(AFTER, AFTER, steps=0, seconds=0.0)
    assert {name for name, number in charts.items() if number is not None} == {
        f"{tier}_{level}" for tier in ("DRAM", "SSDHASH") for level in ("rows", "bytes")
    }
    again = copy.deepcopy(AFTER)
    again["tiers"]["DRAM"] |= {"hits": 2, "misses": 50}
    charts = tensorboard_charts(AFTER, again, steps=1, seconds=1.0)
    assert charts["DRAM_hits_per_step"] is None
    assert charts["DRAM_hit_rate"] is None


def test_at_rest_all_rows_are_there_and_nothing_moves():
    resting = numbers_at_rest(AFTER)
    assert resting.keys() == tensorboard_charts(BEFORE, AFTER, 1, 1.0).keys()
    assert (resting["DRAM_rows"], resting["SSDHASH_bytes"]) == (7, 300)
    assert resting["DRAM_hit_rate"] == resting["SSDHASH_hit_rate"] == 1
    assert resting["SSDHASH_read_bytes_per_second"] == resting["prefetch_used_rate"] == 0


@pytest.mark.parametrize("name", numbers_at_rest(AFTER))
def test_every_chart_says_what_it_shows(name):
    assert description_of(name).endswith(".")


def test_counters_have_the_paths_of_the_statistics():
    counters = all_counters(BEFORE, AFTER)
    assert counters["waited_seconds"] == 3.0
    assert counters["SSDHASH/read_bytes"] == 850
    assert counters["SSDHASH/hit_rate"] == 0.25
    assert counters["prefetch/used"] == 13
    assert len(counters) == 1 + 2 * 7 + 4
