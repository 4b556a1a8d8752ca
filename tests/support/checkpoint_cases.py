"""Models with tables, what is in them, and files of each form, for the tests of saving."""

import functools
import json
import os
import re
import signal
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import load_weights
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import verify
from table_twins import STACKS

NUM_KEYS = 3000
# Bytes of all tiers but the last: a part of the rows of a model that is trained on all keys.
_UPPER_TIER = 32 << 10

IDS = np.random.default_rng(0).integers(0, NUM_KEYS, (80, 2))
FEW_IDS = np.random.default_rng(0).integers(0, 30, (32, 2))
TARGETS = np.random.default_rng(1).normal(size=(80, 1))
STORAGE_TYPES = [None, *STACKS]
FORMS = ["weights.h5", "keras", "weights.json", "checkpoint"]


def storage(storage_type, path):
    if storage_type is None:
        return None
    sizes = [*[_UPPER_TIER] * storage_type.count("_"), 2 << 20]
    return keras_sparse.StorageOption(storage_type, storage_path=path, storage_size=sizes)


def make_model(
    storage=None, optimizer="Adagrad", admission=None, eviction=None, compiled=True, **compile_with
):
    """A model of a dynamic and a static table."""
    inputs = keras.Input((2,), dtype="int64")
    options = {"storage": storage, "admission": admission, "eviction": eviction, "seed": 1}
    dynamic = Embedding(None, 4, "sum", **options)(inputs)
    static = Embedding(NUM_KEYS, 2, "mean", seed=2)(inputs)
    joined = keras.layers.Concatenate()([dynamic, static])
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))(joined)
    model = keras.Model(inputs, outputs)
    if compiled:
        optimizer = getattr(keras_sparse.optimizers, optimizer)(0.05)
        model.compile(optimizer, **{"loss": "mse", "run_eagerly": True, **compile_with})
        optimizer.build(model.trainable_variables)
    return model


def tables(model):
    return [v for v in model.variables if isinstance(v, keras_sparse.EmbeddingVariable)]


def train(model, seed, num_samples=8):
    """One step on random keys."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, NUM_KEYS, (num_samples, 2))
    model.train_on_batch(ids, rng.normal(size=(num_samples, 1)))


def train_all_keys(model):
    """One step on every key."""
    ids = np.arange(NUM_KEYS).reshape(-1, 2)
    model.train_on_batch(ids, np.sin(ids[:, :1]))


def fit(model, callbacks=(), epochs=3):
    """Ten steps an epoch."""
    return model.fit(
        IDS, TARGETS, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
    )


class Send(keras.callbacks.Callback):
    """Sends a signal to this process in a call of a hook, and counts training calls."""

    def __init__(self, hook, count=1, number=signal.SIGTERM):
        super().__init__()
        self.num_steps = 0
        self._hook, self._count, self._number = hook, count, number
        called = getattr(self, hook)

        def call(*args, **kwargs):
            called(*args, **kwargs)
            self._count -= 1
            if self._count == 0:
                os.kill(os.getpid(), self._number)

        setattr(self, hook, call)

    def on_train_batch_begin(self, batch, logs=None):
        self.num_steps += 1


def batches(first=0, number=18):
    """Each step has a batch of its own."""
    for step in range(first, first + number):
        rng = np.random.default_rng(step)
        yield rng.integers(0, NUM_KEYS, (8, 2)), rng.normal(size=(8, 1))


def dataset_of(batches):
    """A dataset of the batches of a function, each of ids and targets."""
    specs = tf.TensorSpec((None, 2), tf.int64), tf.TensorSpec((None, 1), tf.float64)
    return tf.data.Dataset.from_generator(batches, output_signature=specs)


def content(model, chunk_rows=700):
    """Everything in a model, to be compared with that of another model."""
    others = [v for v in model.variables if not isinstance(v, keras_sparse.EmbeddingVariable)]
    if getattr(model, "optimizer", None) is not None:
        others += model.optimizer.variables
    return [
        *(checks.table_content(table, chunk_rows) for table in tables(model)),
        *(np.array(each).tolist() for each in others),
    ]


def save(model, folder, form, most_gb=2e-6):
    """Returns the path of the file or checkpoint; several files have so much each, at most."""
    path = folder / f"saved.{form}"
    if form == "checkpoint":
        return save_checkpoint(model, path, verbose=False)
    if form == "keras":
        model.save(path)
    else:
        model.save_weights(path, **({"max_shard_size": most_gb} if form == "weights.json" else {}))
    return path


def load(model, path, **options):
    """Returns the model, with what has been saved."""
    if path.is_dir():
        load_checkpoint(model, path, verbose=False, **options)
    elif "grow" in options:
        load_weights(model, path, **options)
    else:
        model.load_weights(path, **options)
    return model


def reloaded(model, make_other, folder, form, **options):
    """Returns the model of a file: one that `make_other` makes, where the file has no config."""
    path = save(model, folder, form, **options)
    return keras.saving.load_model(path) if form == "keras" else load(make_other(), path)


@functools.cache
def bystander():
    """A trained model that no test may change, and its content."""
    model = make_model()
    train(model, 9)
    return model, content(model)


def assert_refused(path, match, error=ValueError, also_unverified=False):
    """Raises unless a checkpoint is refused wherever it is read, and changes nothing."""
    model, before = bystander()
    for load in (verify, functools.partial(load_checkpoint, model)):
        with pytest.raises(error, match=match):
            load(path)
        assert content(model) == before
    if also_unverified:
        with pytest.raises(error, match=match):
            load_checkpoint(make_model(), path, verify=False)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def edit_manifest(folder, change):
    """Changes what the manifest of a checkpoint says, and its checksum with it."""
    path = folder / "manifest.json"
    fields = json.loads("\n".join(json.loads(path.read_text())["manifest"]))
    change(fields)
    text = json.dumps(fields)
    path.write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "manifest": [text]}))


def saved_parts(fields, kind):
    """Those of the first table of a manifest."""
    return [part for part in fields["tables"][0]["parts"] if part["kind"] == kind]


def features(names, dim=None, width=4, deep="deep", deep_units=3, layer=None, optimizer="Adagrad"):
    """A model of a table a feature, each in a layer of its own or all in one of several."""
    inputs = [keras.Input((2,), dtype="int64", name=f"ids_{name}") for name in names]
    tables = [Embedding(dim, width, "sum", name=name) for name in names]
    if layer is None:
        rows = keras.layers.Add()([t(ids) for t, ids in zip(tables, inputs, strict=True)] * 2)
    else:
        rows = keras.layers.Add()(layer(tables, name="all")(inputs) * 2)
    hidden = keras.layers.Dense(deep_units, name=deep)(rows)
    model = keras.Model(inputs, keras.layers.Dense(1, name="out")(hidden))
    compile_eagerly(model, optimizer)
    return trained(model)


def compile_eagerly(model, optimizer="Adagrad"):
    if isinstance(optimizer, str):
        optimizer = getattr(keras_sparse.optimizers, optimizer)(0.1)
    model.compile(optimizer, loss="mse", run_eagerly=True)


def trained(model):
    model.train_on_batch([FEW_IDS + i for i in range(len(model.inputs))], np.ones((32, 1)))
    return model


def content_by_names(model):
    """All there is by names: tables with slots, dense variables and those of the optimizer."""
    found = {}
    for variable in [*model.variables, *model.optimizer.variables]:
        name = variable.path.replace("/embeddings", "").rpartition("/")[2]
        if isinstance(variable, keras_sparse.EmbeddingVariable):
            found[name] = checks.table_content(variable)
        elif not variable.path.startswith("seed_generator"):
            owner, name = variable.path.split("/")[-2:]
            found[f"{re.sub('_[0-9]+$', '', owner)}/{name}"] = np.array(variable).tolist()
    return found


class Tower(keras.layers.Layer):
    def __init__(self, table, **options):
        super().__init__(**options)
        self.table = Embedding(None, 4, "sum", name=table)

    def call(self, ids):
        return self.table(ids)


def towers(names, by_attribute=False, dense=("a", "b"), width=4, table="ids"):
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            layers = [Tower(table, name=name) for name in names]
            if by_attribute:
                self.first, self.second = (Embedding(None, width, "sum", name=n) for n in names)
            else:
                self.layers_of_ids = layers
            self.dense = [keras.layers.Dense(4, name=name) for name in dense]

        def call(self, ids):
            a, b = (self.first, self.second) if by_attribute else self.layers_of_ids
            return self.dense[1](self.dense[0](a(ids) + 2 * b(ids)))

    model = Two()
    compile_eagerly(model)
    model.train_on_batch(FEW_IDS, np.arange(128).reshape(32, 4))
    return model


def layer_rows(model, name):
    (layer,) = (each for each in model._flatten_layers() if each.name == name)
    table = layer.table if isinstance(layer, Tower) else layer
    return table.find(np.arange(30)).rows
