"""Models of Keras' own layers predict what ours do, in a process that cannot import ours."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup
from keras_sparse.serving import to_keras

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 60, (16, 3))
LARGE = IDS + 2**40 * np.where(IDS % 2, 1, -1)
WEIGHTS = RNG.uniform(0.5, 2, IDS.shape).astype("float32")
# Half of them have had no gradient.
UNSEEN = np.concatenate([LARGE[:8], RNG.integers(-(2**63), 2**63 - 1, (8, 3))])
OUTSIDE = np.where(IDS % 5 == 0, IDS - 100, IDS)
BAGS = np.where(np.arange(3) < RNG.integers(0, 4, (16, 1)), IDS, -7)


def of_layer(layer, *inputs, with_weights=False, dtype=None):
    """A trained model of a layer with its inputs."""
    specs = [keras.Input(each.shape[1:], dtype=each.dtype) for each in inputs]
    rows = layer(specs[0], weights=specs[1]) if with_weights else layer(*specs)
    flat = keras.layers.GlobalAveragePooling1D()(rows) if len(rows.shape) == 3 else rows
    outputs = keras.layers.Dense(2, dtype=dtype)(flat)
    model = keras.Model(specs if len(specs) > 1 else specs[0], outputs)
    model.compile(keras_sparse.optimizers.Adam(0.5), loss="mse", run_eagerly=True)
    inputs = [*inputs]
    half = [each[:8] for each in inputs]
    for _ in range(2):
        model.train_on_batch(half if len(half) > 1 else half[0], np.ones((8, 2)))
    return model, inputs


def of_tables(layer, inputs):
    specs = {n: keras.Input(each.shape[1:], dtype=each.dtype, name=n) for n, each in inputs.items()}
    rows = layer(specs)
    rows = rows if not isinstance(rows, dict) else keras.layers.Concatenate()([*rows.values()])
    model = keras.Model(specs, keras.layers.Dense(2)(keras.layers.Flatten()(rows)))
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=True)
    model.train_on_batch({n: each[:8] for n, each in inputs.items()}, np.ones((8, 2)))
    return model, inputs


def of_nested():
    ids = keras.Input((3,), dtype="int64")
    inner = keras.Sequential([keras.Input((3,), dtype="int64"), Embedding(60, 4, "sum", name="a")])
    shared = Embedding(60, 4, "mean", name="shared")
    outputs = inner(ids) * shared(ids) + shared(ids)
    return keras.Model(ids, outputs), [IDS]


def of_tokens():
    """Half of the keys have a token."""
    ids = keras.Input((3,), dtype="int64")
    rows = Embedding(61, 4, "sum")(IntegerLookup(60)(ids))
    model = keras.Model(ids, rows)
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=True)
    model.train_on_batch(UNSEEN[:8], np.ones((8, 4)))
    return model, [UNSEEN]


def of_sequential():
    model = keras.Sequential([keras.Input((3,), dtype="int64"), Embedding(60, 4, "sum")])
    return model, [IDS]


def tables():
    return {
        "many": Embedding(None, 4, "sum", "zeros"),
        "few": Embedding(60, 4, "mean"),
    }


MODELS = {
    "static": lambda: of_layer(Embedding(60, 4), IDS),
    "zero_outside": lambda: of_layer(Embedding(60, 4, "mean", out_of_range="zero"), OUTSIDE),
    "zero_outside_alone": lambda: of_layer(Embedding(60, 4, out_of_range="zero"), OUTSIDE),
    "masked": lambda: of_layer(Embedding(60, 4, mask_zero=True), IDS),
    "masked_bags": lambda: of_layer(Embedding(60, 4, "mean", mask_zero=True), IDS % 3),
    "mixed": lambda: of_layer(Embedding(60, 4, "mean", dtype="mixed_float16"), IDS),
    "dynamic": lambda: of_layer(Embedding(None, 4, None, "zeros"), UNSEEN),
    "filtered": lambda: of_layer(
        Embedding(
            None,
            4,
            "sum",
            admission=keras_sparse.CounterFilter(1, default_value_no_permission=0.25),
        ),
        UNSEEN,
    ),
    "minus_one": lambda: of_layer(Embedding(None, 4, "sum", "zeros"), IDS - 2),
    "joined": lambda: of_tables(
        GroupEmbedding(tables(), output_mode="concat"), {"many": UNSEEN, "few": IDS}
    ),
    "stacked": lambda: of_tables(
        GroupEmbedding(tables(), output_mode="stack"), {"many": UNSEEN, "few": IDS}
    ),
    "listed": lambda: of_tables(DistributedEmbedding(tables()), {"many": UNSEEN, "few": IDS}),
    "nested": of_nested,
    "tokens": of_tokens,
    "sequential": of_sequential,
    **{
        f"{combiner}_{kind}": lambda combiner=combiner, kind=kind: of_layer(
            Embedding(None if kind == "dynamic" else 60, 4, combiner, "zeros", padding_id=-7),
            BAGS,
            *([WEIGHTS] if kind == "weights" else []),
            with_weights=kind == "weights",
        )
        for combiner in ("sum", "mean", "sqrtn")
        for kind in ("dynamic", "static", "weights")
    },
}
LOADER = """
import pathlib, sys
sys.modules["keras_sparse"] = None
import keras, numpy as np
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.keras")):
    inputs = [*np.load(path.with_suffix(".npz")).values()]
    model = keras.saving.load_model(path)
    names = sorted(model.input) if isinstance(model.input, dict) else None
    inputs = dict(zip(names, inputs)) if names else inputs if len(inputs) > 1 else inputs[0]
    np.save(path.with_suffix(".npy"), model(inputs).numpy())
"""


def predicted(name):
    """A model in Keras' layers, its inputs, and what ours makes of them."""
    model, inputs = MODELS[name]()
    given = inputs if isinstance(inputs, dict) or len(inputs) > 1 else inputs[0]
    return to_keras(model), given, np.asarray(model(given))


@pytest.mark.parametrize("name", MODELS)
def test_predicts_the_same(name):
    plain, inputs, expected = predicted(name)
    np.testing.assert_allclose(plain(inputs), expected, 1e-5, 1e-6)


@pytest.mark.slow("starts processes")
def test_predict_the_same_where_ours_cannot_be_imported(tmp_path):
    expected = {}
    for name in MODELS:
        plain, inputs, expected[name] = predicted(name)
        np.savez(tmp_path / f"{name}.npz", *keras.tree.flatten(inputs))
        plain.save(tmp_path / f"{name}.keras")
    command = [sys.executable, "-c", LOADER, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-3000:]
    for name, outputs in expected.items():
        loaded = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(loaded, outputs, 1e-5, 1e-6, err_msg=name)


def test_keys_without_a_row_read_as_the_number_that_is_chosen():
    ids = keras.Input((1,), dtype="int64")
    model = keras.Model(ids, Embedding(None, 4)(ids))
    rows = to_keras(model, default=0.5)(np.array([[3], [-1]]))
    np.testing.assert_array_equal(rows, np.full((2, 1, 4), 0.5))


class Own(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.rows = Embedding(60, 4, "sum")

    def call(self, ids):
        return self.rows(ids)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda ids: Own()(ids), "must be Embedding, DistributedEmbedding or GroupEmbedding"),
        (lambda ids: Embedding(None, 4, mask_zero=True)(ids), "must have no mask"),
        (lambda ids: Embedding(60, 4, padding_id=-7)(ids), "must have no mask"),
        (
            lambda ids: GroupEmbedding([Embedding(60, 4, mask_zero=True)])([ids])[0],
            "must not have masks",
        ),
        (
            lambda ids: keras_sparse.layers.All2AllDenseEmbedding(60, 4, 3, 1)(ids[..., None]),
            "must be Embedding, DistributedEmbedding or GroupEmbedding",
        ),
    ],
)
def test_what_keras_has_no_layer_for_is_refused(make, match):
    ids = keras.Input((3,), dtype="int64")
    with pytest.raises(NotImplementedError, match=match):
        to_keras(keras.Model(ids, make(ids)))


def test_ragged_inputs_and_other_models_are_refused():
    ids = keras.Input((None,), dtype="int64", ragged=True)
    with pytest.raises(NotImplementedError, match="Inputs must be dense"):
        to_keras(keras.Model(ids, Embedding(60, 4, "sum")(ids)))
    with pytest.raises(TypeError, match="built functional or sequential"):
        to_keras(pathlib.Path())
    with pytest.raises(TypeError, match="`default` must be a number"):
        to_keras(of_sequential()[0], default="0")
