import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.saved_model.chosen_keys import chosen_keys
from keras_sparse.saved_model.chosen_keys import RowChoice
from keras_sparse.serving import export_options
from layer_cases import export
from layer_cases import save_by_tensorflow
from layer_cases import served

# Each batch trains a key less: key -5 is the oldest, key 4 had the last gradient, and the most.
KEYS = np.arange(-5, 5)
AGED = {"eviction": keras_sparse.GlobalStepEvict(1000)}
OPTIONS = {"most_recent": AGED, "most_used": {"frequency": True}}


def model_of(layer):
    inputs = keras.Input((1,), dtype="int64")
    model = keras.Sequential([inputs, layer, keras.layers.Flatten()])
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=True)
    for first in range(len(KEYS)):
        keys = KEYS[first:, np.newaxis]
        model.train_on_batch(keys, np.ones((len(keys), 2)))
    return model


@pytest.mark.parametrize("way", [export, save_by_tensorflow])
def test_each_export_has_the_default_it_is_given(way, tmp_path):
    model = model_of(Embedding(None, 2, admission=keras_sparse.CounterFilter(3)))
    keys = np.append(KEYS, [2**40, -(2**63)])
    expected = model.predict_on_batch(keys)
    np.testing.assert_array_equal(model.layers[0].embeddings.contains(keys)[:3], [False] * 2 + [1])
    for step, default in enumerate([0.25, 0.0, -0.0, None] if way is export else [None, 0.25]):
        with export_options(default=default):
            way(model, tmp_path / str(step))
        rows = served(tmp_path / str(step), keys[:, np.newaxis])
        wanted = expected.copy()
        if default is not None:
            wanted[[0, 1, 10, 11]] = default
        assert rows.tobytes() == wanted.tobytes(), default


@pytest.mark.parametrize("order", OPTIONS)
@pytest.mark.parametrize(("storage", "number"), [(None, 11), ("DRAM_SSDHASH", 4)])
def test_the_first_rows_are_taken(order, storage, number, tmp_path):
    if storage:
        storage = keras_sparse.StorageOption(storage, tmp_path / "rows", ["1KB", "1MB"])
    model = model_of(Embedding(None, 2, storage=storage, **OPTIONS[order]))
    expected = model.predict_on_batch(KEYS)
    with export_options(0.0, f"{order}:{number}"):
        export(model, tmp_path / "model")
    layer = keras.layers.TFSMLayer(tmp_path / "model", call_endpoint="serve")
    expected[: max(0, len(KEYS) - number)] = 0
    np.testing.assert_array_equal(layer(KEYS[:, np.newaxis]), expected)
    # One more, of zeros.
    sizes = [each.shape[0] for each in layer.weights if each.shape.rank]
    assert sizes == [min(number, len(KEYS)) + 1]
    assert model.layers[0].embeddings.num_rows == len(KEYS)


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        ("most_recent:17", AGED, range(-200, -183)),
        # Those of `model_of` but for the first have more; of the rest come ages, then keys.
        ("most_used:17", {"frequency": True}, [*range(-200, -192), *range(-4, 5)]),
        ("most_used:11", {"frequency": True, **AGED}, [-200, *range(-5, 5)]),
    ],
)
def test_of_equal_rows_the_smallest_keys_are_taken_in_any_pieces(
    rows, options, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr("keras_sparse.saved_model.table_content.CHUNK_BYTES", 24)
    layer = Embedding(None, 2, **options)
    model = model_of(layer)
    keys = np.random.default_rng(0).permutation(np.arange(-200, 200, dtype=np.int64))
    if rows == "most_used:17":
        keys = keys[keys != -5]
    model.train_on_batch(keys[:, np.newaxis], np.ones((len(keys), 2)))
    with export_options(rows=rows, default=7.0):
        export(model, tmp_path)
    answers = served(tmp_path, keys[:, np.newaxis])
    np.testing.assert_array_equal(np.sort(keys[answers[:, 0] != 7]), expected)


@pytest.mark.parametrize("number", [100, 2000, 10_000])
def test_rows_are_chosen_in_a_time_that_grows_with_their_number(number, monkeypatch):
    """By what is copied and sorted of 4000 rows in pieces of 20: each a few times."""
    table = keras_sparse.EmbeddingVariable(None, 1, **AGED)
    keys = np.arange(4000)
    table.import_(keys, np.ones((4000, 1)), ages=keys[::-1].astype(np.uint32))
    handled = []

    def counted(function):
        def counting(*arrays, **options):
            handled.append(sum(map(np.size, arrays[0] if len(arrays) == 1 else arrays)))
            return function(*arrays, **options)

        return counting

    for name in ("append", "concatenate", "lexsort"):
        monkeypatch.setattr(np, name, counted(getattr(np, name)))
    chosen = chosen_keys(table.table, RowChoice("most_recent", number), chunk_rows=20)
    assert sum(handled) < 15 * 3 * len(keys)
    np.testing.assert_array_equal(chosen, keys[-number:])


def test_ages_in_seconds_say_it_too(tmp_path):
    model = model_of(Embedding(None, 2, eviction=keras_sparse.TimeToLive(3600)))
    ages = 60 * (KEYS % 7)
    model.layers[0].embeddings.import_(KEYS, np.ones((len(KEYS), 2)), ages=ages)
    with export_options(rows="most_recent:4", default=7.0):
        export(model, tmp_path)
    rows = served(tmp_path, KEYS[:, np.newaxis])
    expected = KEYS[np.lexsort((KEYS, ages))[:4]]
    np.testing.assert_array_equal(KEYS[rows[:, 0] != 7], np.sort(expected))


def test_static_tables_have_all_rows_and_each_dynamic_one_its_most_recent(tmp_path):
    ids = [keras.Input((1,), dtype="int64") for _ in range(2)]
    tables = [Embedding(10, 2, "sum"), Embedding(None, 2, "sum", **AGED)]
    outputs = DistributedEmbedding(tables)(ids)
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=True)
    inputs = [np.arange(10)[:, np.newaxis], KEYS[:, np.newaxis]]
    model.train_on_batch(inputs, [np.ones((10, 2))] * 2)
    expected = [each.numpy() for each in model(inputs)]
    with export_options(0.0, "most_recent:3"):
        export(model, tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    answers = loaded.serve([tf.constant(each) for each in inputs])
    np.testing.assert_array_equal(answers[0], expected[0])
    np.testing.assert_array_equal(answers[1][:3], expected[1][:3])
    assert not np.any(answers[1][3:])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rows": "most_recent"}, ValueError, '"most_recent:N".*Received: rows='),
        ({"rows": "most_used:"}, ValueError, '"most_used:N" or "most_recent:N"'),
        ({"rows": "most_recent:0"}, ValueError, "an integer N above 0"),
        ({"rows": 5}, ValueError, "Received: rows=5"),
        ({"rows": "most_recent:-1"}, ValueError, "an integer N above 0"),
        ({"default": np.nan}, ValueError, "`default` must be finite"),
        ({"default": -1e39}, ValueError, "`default` must be in the range of float32, up to 3.4e38"),
        ({"default": "initializer"}, TypeError, "`default` must be a number"),
    ],
)
def test_other_options_are_refused(options, error, words):
    with pytest.raises(error, match=words), export_options(**options):
        pass


@pytest.mark.parametrize("order", OPTIONS)
def test_a_table_without_what_is_asked_for_is_refused(order, tmp_path):
    others = {"most_recent": {"frequency": True}, "most_used": AGED}
    words = {"most_recent": "keep ages", "most_used": "count how often"}
    model = model_of(Embedding(None, 2, **others[order]))
    with (
        export_options(rows=f"{order}:3"),
        pytest.raises(ValueError, match=rf"{words[order]}.*Received: variable '.*embeddings"),
    ):
        export(model, tmp_path / "model")
    export(model, tmp_path / "model")  # what was asked for is over
    rows = served(tmp_path / "model", KEYS[:, np.newaxis])
    np.testing.assert_array_equal(rows, model.predict_on_batch(KEYS))
