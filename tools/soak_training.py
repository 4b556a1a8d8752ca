"""The training of `tools/soak.py`: DLRM with tiers, which writes down where it is.

python tools/soak_training.py FOLDER DATA [--stop-at BATCH] [--export FILE]
"""

import argparse
import json
import os
import pathlib
import sys
import time

import keras
import numpy as np

import keras_sparse
import keras_sparse.distribute as ksd

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from examples.dlrm import model as dlrm
from examples.dlrm.reader import evaluation_batches
from examples.dlrm.reader import training_batches
from examples.dlrm.split_binary import Part
from keras_sparse.distribute.ranks.collectives import broadcast_object

BATCH_SIZE = 96  # of all ranks
STEPS = 25  # of an epoch; an update has two, so that every second epoch ends within one
LAST = "last-epoch"  # a file with the epoch after which training ends


class Told(keras.callbacks.Callback):
    """Writes a line for each start of a rank and each batch, and ends training."""

    def __init__(self, folder, checkpoint, stop_at):
        super().__init__()
        self._folder, self._checkpoint, self._stop_at = folder, checkpoint, stop_at

    def tell(self, **facts):
        line = json.dumps({"rank": ksd.rank(), "pid": os.getpid(), "time": time.time(), **facts})
        with open(self._folder / "log.jsonl", "a", encoding="ascii") as file:
            file.write(f"{line}\n")

    def on_train_begin(self, logs=None):
        self._batch = self._checkpoint.first_batch
        self.tell(begin=self._batch, ranks=ksd.size())

    def on_train_batch_end(self, batch, logs=None):
        self._batch += 1
        if ksd.rank() == 0:
            self.tell(batch=self._batch)
        if self._batch == self._stop_at:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        path = self._folder / LAST
        last = path.read_text() if ksd.rank() == 0 and path.exists() else ""
        last = broadcast_object(last, 0, "soak.last_epoch")
        if last and epoch >= int(last):
            self.model.stop_training = True


def make_model(folder, num_ids):
    """Makes a model whose tables keep some of their rows on a disk, and evict others."""

    def storage_of(num_ids):
        return keras_sparse.StorageOption("DRAM_SSDHASH", folder / "tiers", [8192, 1 << 22])

    options = {"eviction": keras_sparse.LruEvict(at_save=False), "max_rows": 150, "frequency": True}
    model = dlrm.make_model(num_ids, 8, (16,), (16,), storage_of, options, strategy="auto")
    optimizer = keras_sparse.optimizers.Adagrad(0.02, gradient_accumulation_steps=2)
    model.compile(
        ksd.DistributedOptimizer(optimizer),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True, name="auc")],
    )
    return model


def train(folder, data, stop_at):
    """Trains until a batch, or the epoch that the file says."""
    part = Part(data, "train")
    model = make_model(folder, part.num_ids)
    options = {"delta_every": 5, "keep": 3, "skip_batches": False, "on_signal": "SIGTERM"}
    checkpoint = keras_sparse.callbacks.Checkpoint(folder / "run", **options)
    batches = training_batches(part, BATCH_SIZE, lambda: checkpoint.first_batch)
    model.fit(
        keras_sparse.data.prefetch_lookups(batches, model),
        epochs=10**6,
        steps_per_epoch=STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[
            ksd.MetricAverage(),
            keras_sparse.callbacks.BroadcastGlobalVariables(),
            checkpoint,
            Told(folder, checkpoint, stop_at),
        ],
    )


def export(folder, data, path):
    """Writes all rows with slots and counts, all dense values, and the metrics on the test part."""
    model = make_model(folder / "exported", Part(data, "train").num_ids)
    info = keras_sparse.saving.load_checkpoint(model, folder / "run", verbose=False)
    arrays = {"training": np.array(json.dumps([info.step, info.training], sort_keys=True))}
    for table in model.get_layer("tables").tables:
        pieces = zip(*table.export(with_ages=True, with_frequencies=True), strict=True)
        columns = dict(
            zip(("keys", "rows", "ages", "counts"), map(np.concatenate, pieces), strict=True)
        )
        order = np.argsort(columns["keys"])
        arrays |= {f"{table.name}/{name}": each[order] for name, each in columns.items()}
    for i, each in enumerate([*model.weights, *model.optimizer.variables]):
        if not isinstance(each, keras_sparse.EmbeddingVariable):
            arrays[f"{i}/{each.path}"] = np.array(each)
    arrays["metrics"] = np.array(
        model.evaluate(evaluation_batches(Part(data, "test"), BATCH_SIZE), verbose=0)
    )
    np.savez(path, **arrays)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--stop-at", type=int)
    parser.add_argument("--export", type=pathlib.Path)
    given = parser.parse_args()
    ksd.init()
    keras.utils.set_random_seed(0)
    if given.export:
        export(given.folder, given.data, given.export)
    else:
        train(given.folder, given.data, given.stop_at)
