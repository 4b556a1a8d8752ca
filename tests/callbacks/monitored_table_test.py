"""What a table is counted from: its rows may be there before its optimizer, or it comes later."""

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.callbacks import TierStats

IDS = np.random.default_rng(0).integers(0, 5000, (640, 4))


pytestmark = pytest.mark.usefixtures("write_in_the_step")


def fit_with_charts(model, ids, folder):
    targets = np.ones((len(IDS), 1))
    model.fit(ids, targets, 64, verbose=0, callbacks=[TierStats(folder)])


@pytest.mark.parametrize("num_predicted", [0, 200])
def test_rows_that_were_loaded_before_the_optimizer_is_built(num_predicted, tmp_path, written):
    def model_in(name):
        storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / name, [100_000])
        inputs = keras.Input((4,), dtype="int64")
        layer = keras_sparse.layers.Embedding(None, 64, "sum", storage=storage, name="items")
        return keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))

    model = model_in("first")
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    fit_with_charts(model, IDS, tmp_path / "log")
    model.save_weights(tmp_path / "saved.weights.h5")

    model = model_in("second")
    model.load_weights(tmp_path / "saved.weights.h5")
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    if num_predicted:
        model.predict(IDS[:num_predicted], verbose=0)
    fit_with_charts(model, IDS, tmp_path / "logs")
    values = written(tmp_path / "logs")
    # Lower tiers count anew when the optimizer is built, in the first step.
    counts = model.get_layer("items").stats()["tiers"]["SSDHASH"]
    assert counts["hits"] > 0
    assert values["items/embeddings/SSDHASH_hits_per_step"] == {
        10: pytest.approx(counts["hits"] / 10)
    }
    (rate,) = values["items/embeddings/SSDHASH_hit_rate"].values()
    assert rate == pytest.approx(counts["hits"] / (counts["hits"] + counts["misses"]))


def test_charts_of_a_dynamic_table_go_on_in_the_next_training(tmp_path, written):
    model = keras.Sequential(
        [keras.Input((4,), dtype="int64"), keras_sparse.layers.Embedding(None, 2, "sum")]
    )
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    for folder in ("first", "second"):
        fit_with_charts(model, IDS, tmp_path / folder)
    # All rows are there from the beginning, as where training goes on from a checkpoint.
    first, second = (written(tmp_path / folder) for folder in ("first", "second"))
    assert second.keys() == first.keys()
    assert {tag.rpartition("_")[2] for tag in second} == {"rows", "bytes", "rate", "step"}


def test_tables_of_one_path_are_two(tmp_path, written):
    def tower(input_dim):
        ids = keras.Input((4,), dtype="int64")
        rows = keras_sparse.layers.Embedding(input_dim, 2, "sum", name="ids")(ids)
        return keras.Model(ids, rows)

    inputs = [keras.Input((4,), dtype="int64") for _ in range(2)]
    rows = [tower(None)(inputs[0]), tower(5000)(inputs[1])]
    model = keras.Model(inputs, keras.layers.Dot(1)(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    fit_with_charts(model, [IDS, IDS[::-1]], tmp_path)
    values = written(tmp_path)
    dynamic, static = (table.stats()["tiers"]["DRAM"] for table in model.trainable_variables)
    for name, counts in (("ids/embeddings", dynamic), ("ids/embeddings_1", static)):
        assert values[f"{name}/DRAM_hits_per_step"] == {10: pytest.approx(counts["hits"] / 10)}


def test_a_table_that_is_built_in_the_first_step_is_looked_at_from_then_on(tmp_path, written):
    class TwoTables(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras_sparse.layers.Embedding(None, 2, "sum", name="first")
            self.second = keras_sparse.layers.Embedding(None, 2, "sum", name="second")

        def build(self, ids_shape):
            self.first.build(ids_shape)  # the other one is built when it is called

        def call(self, ids, training=False):
            rows = self.first(ids)
            return rows + self.second(ids) if training else rows

    model = TwoTables()
    model.compile(keras_sparse.optimizers.SGD(0.1), "mse")
    model(IDS)
    callback = TierStats(tmp_path, verbose=1)
    model.fit(IDS, np.ones((len(IDS), 2)), 64, epochs=2, verbose=0, callbacks=[callback])
    (second,) = (each for each in model.trainable_variables if "second" in each.path)
    values = written(tmp_path)
    assert values[f"{second.path}/DRAM_rows"][20] == len(np.unique(IDS))
    assert values[f"{second.path}/DRAM_hits_per_step"].keys() == {20}
