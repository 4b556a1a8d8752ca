"""Histograms and the projector of tables, by a subclass of Keras' callback."""

import pathlib

import keras
import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins import projector

import keras_sparse
from keras_sparse.callbacks import TensorBoard
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
            r"some of .'embeddings', 'words', .*: .'wrds'.$",
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
    with pytest.raises(TypeError, match=r"Leave tables out of a norm.*embeddings_regularizer"):
        [keras.ops.norm(each) for each in make_model(words=None).weights]
