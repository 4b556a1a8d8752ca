"""SavedModels: what a process with nothing but TensorFlow predicts is what the model does."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import layer_cases
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup

pytestmark = pytest.mark.slow("starts processes")
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 60, (8, 3))
LARGE = IDS + 2**40 * np.where(IDS % 2, 1, -1)
# Half of them have had no gradient.
UNSEEN = np.concatenate([LARGE, RNG.integers(-(2**63), 2**63 - 1, (8, 3))])


def of_form(form, case):
    ids = IDS if case in layer_cases.STATIC else LARGE
    model = layer_cases.made(form, case, tf.constant(ids))
    layer_cases.train(model, tf.constant(ids))
    return model, [ids if case in layer_cases.STATIC else UNSEEN]


def trained(model, inputs, optimizer="Adagrad"):
    """A model after two steps on the first half of its inputs, and the inputs."""
    model.compile(getattr(keras_sparse.optimizers, optimizer)(0.5), loss="mse")
    half = [tf.constant(each[: len(each) // 2]) for each in inputs]
    half = half if len(half) > 1 else half[0]
    model(half)
    model.optimizer.build(model.trainable_variables)
    for _ in range(2):
        layer_cases.train(model, half)
    return model, inputs


def of_layer(layer, inputs, optimizer="Adagrad"):
    specs = [keras.Input(each.shape[1:], dtype=each.dtype) for each in inputs]
    rows = keras.layers.Flatten()(layer(*specs))
    model = keras.Model(specs if len(specs) > 1 else specs[0], rows)
    return trained(model, inputs, optimizer)


def of_sequential():
    model = keras.Sequential(
        [keras.Input((3,), dtype="int64"), Embedding(None, 4, "sum"), keras.layers.Dense(2)]
    )
    return trained(model, [UNSEEN])


def of_options(*args, optimizer="Adagrad", inputs=(UNSEEN,), **options):
    return of_layer(Embedding(*args, **options), list(inputs), optimizer)


def of_tiers(folder):
    storage = keras_sparse.StorageOption(
        "DRAM_SSDHASH", storage_path=str(folder / "rows"), storage_size=["1kB", "1MB"]
    )
    return of_options(None, 40, "sum", storage=storage)


def of_joined_tables():
    layer = DistributedEmbedding(
        [Embedding(None, 2, "sum"), Embedding(60, 3, "mean")], output_mode="concat"
    )
    return of_layer(lambda *inputs: layer(list(inputs)), [IDS + 1, IDS])


def of_matrix(dtype):
    layers = [Embedding(None, 2), Embedding(60, 3, "mean"), Embedding(60, 1)]
    return of_layer(GroupEmbedding(layers, output_mode="concat"), [IDS.astype(dtype)])


def of_tokens():
    """Half of the keys have a token."""
    ids = keras.Input((3,), dtype="int64")
    return trained(keras.Model(ids, Embedding(61, 4, "sum")(IntegerLookup(60)(ids))), [UNSEEN])


def of_ragged_bags(kind):
    """Bags of any length, an empty one among them, as rows of ids that end with -1."""

    class Bags(keras.Model):
        def __init__(self):
            super().__init__()
            self.rows = Embedding(None, 5, "sqrtn")

        def call(self, padded):
            bags = tf.RaggedTensor.from_tensor(padded, padding=-1)
            return self.rows(bags if kind == "ragged" else bags.to_sparse())

    padded = np.concatenate([IDS, np.full((1, 3), -1), IDS])
    padded[3, 1:] = -1
    return trained(Bags(), [padded])


CASES = [
    "static",
    "dynamic",
    "distributed_dynamic",
    "group_dynamic",
    "all2all_dense",
    "all2all_sparse",
    "own_lookup",
]
WEIGHTS = RNG.normal(size=UNSEEN.shape).astype(np.float32)
MODELS = {
    **{f"functional {case}": ("functional", case) for case in CASES},
    "sequential": of_sequential,
    "subclassed static": ("subclassed", "static"),
    "Adam": lambda: of_options(None, 4, optimizer="Adam"),
    "Adam of a static table": lambda: of_options(60, 4, "sum", optimizer="Adam", inputs=[IDS]),
    "weighted mean": lambda: of_options(None, 4, "mean", inputs=[UNSEEN, WEIGHTS]),
    "weighted sqrtn": lambda: of_options(None, 4, "sqrtn", inputs=[UNSEEN, WEIGHTS]),
    "weights that add up to none": lambda: of_options(
        None, 4, "mean", inputs=[UNSEEN, np.float32([[1, -1, 0], [1, 2, 3]] * 8)]
    ),
    "weights without a combiner": lambda: of_options(None, 4, inputs=[UNSEEN, WEIGHTS]),
    "mask_zero": lambda: of_options(60, 4, "mean", mask_zero=True, inputs=[IDS % 4]),
    "padding_id": lambda: of_options(None, 4, "mean", padding_id=7, inputs=[IDS % 8]),
    "zeros out of range": lambda: of_options(60, 4, out_of_range="zero", inputs=[IDS * 2 - 9]),
    "admission": lambda: of_options(
        None, 4, admission=keras_sparse.CounterFilter(2, default_value_no_permission=0.25)
    ),
    "mixed_float16": lambda: of_options(None, 4, "sum", dtype="mixed_float16"),
    "ragged": lambda: of_ragged_bags("ragged"),
    "sparse": lambda: of_ragged_bags("sparse"),
    "tiers": of_tiers,
    "joined tables": of_joined_tables,
    "a matrix": lambda: of_matrix("int64"),
    "a matrix of int32": lambda: of_matrix("int32"),
    "tokens": of_tokens,
}


def signature_of(model, inputs):
    """Keras takes the inputs of a subclassed model for floats."""
    if hasattr(model, "inputs"):
        return {}
    return {
        "input_signature": [tf.TensorSpec((None, *each.shape[1:]), each.dtype) for each in inputs]
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """What models predict, and what they answer from SavedModels, by names."""
    folder = tmp_path_factory.mktemp("served")
    expected = {}
    for name, case in MODELS.items():
        keras.utils.set_random_seed(7)
        if isinstance(case, tuple):
            model, inputs = of_form(*case)
        else:
            model, inputs = case(folder) if case is of_tiers else case()
        expected[name] = model(inputs if len(inputs) > 1 else inputs[0]).numpy()
        model.export(folder / name, verbose=False, **signature_of(model, inputs))
        np.savez(folder / f"{name}.npz", *inputs)
    script = pathlib.Path(__file__).with_name("serve_models.py")
    command = [sys.executable, str(script), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": ""})
    return {
        name: (each, np.load(folder / f"{name}.answers.npz")) for name, each in expected.items()
    }


@pytest.mark.parametrize("name", MODELS)
def test_tensorflow_alone_predicts_the_same(name, served):
    expected, answers = served[name]
    for loader in ("python", "session"):
        np.testing.assert_allclose(answers[loader], expected, rtol=1e-5, atol=1e-6, err_msg=loader)
    assert np.ptp(expected) > 0
