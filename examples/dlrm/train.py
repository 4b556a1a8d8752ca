"""Trains the model, on any number of ranks: `python -m examples.dlrm train`."""

import argparse

import keras

import keras_sparse
import keras_sparse.distribute as ksd
from examples.dlrm import measure
from examples.dlrm.model import make_model
from examples.dlrm.model import SEED
from examples.dlrm.reader import evaluation_batches
from examples.dlrm.reader import training_batches
from examples.dlrm.schedule import WarmupThenDecay
from examples.dlrm.split_binary import Part
from examples.dlrm.tiers import Tiers
from keras_sparse.utils import checks

DESCRIPTION = """\
Trains DLRM on what `preprocess` has written, in the order of its files. Without options the model,
its optimizer and schedule are MLPerf's for Criteo 1TB: one pass, 65,536 samples a step.
`--resume` counts epochs and their steps: keep --batch_size, --steps_per_epoch and --epochs.

    python -m examples.dlrm train --data FOLDER
    horovodrun --gloo -np 2 python -m examples.dlrm train --data FOLDER
"""
# With the number of slots that each keeps beside a row.
OPTIMIZERS = {"sgd": ("SGD", 0), "adagrad": ("Adagrad", 1), "lazy_adam": ("LazyAdam", 2)}


def add_options(parser):
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--data", required=True, metavar="FOLDER", help="what preprocess has written")
    add("--batch_size", type=int, default=65_536, help="samples of all ranks (65536)")
    add("--steps_per_epoch", type=int, help="steps of an epoch; default: all batches of the data")
    add("--epochs", type=int, default=1, help="of as many steps (1)")
    add("--evaluate_every", type=int, metavar="EPOCHS", help="test as often; default: at the end")
    add("--checkpoint", metavar="FOLDER", help="for checkpoints, which all ranks see")
    add("--checkpoint_every", type=int, metavar="STEPS", help="default: after each epoch")
    add("--resume", action="store_true", help="go on from the last checkpoint, if there is one")
    add("--export", metavar="FOLDER", help="for a SavedModel in the end")
    add(
        "--measure_reader",
        type=int,
        metavar="STEPS",
        help="time reading, steps, and both together, and save nothing",
    )
    add = parser.add_argument_group("model").add_argument
    units = {"type": int, "nargs": "*", "metavar": "UNITS"}
    add("--embedding_dim", type=int, default=128, help="width of rows (128)")
    add("--bottom", **units, default=[512, 256], help="hidden layers of numbers (512 256)")
    add("--top", **units, default=[1024, 1024, 512, 256], help="of all (1024 1024 512 256)")
    add = parser.add_argument_group("optimizer").add_argument
    add("--optimizer", choices=OPTIMIZERS, default="sgd", help="(sgd)")
    add("--learning_rate", type=float, default=24.0, help="the highest of the schedule (24)")
    add(
        "--schedule",
        type=int,
        nargs=3,
        metavar=("WARM_UP", "DECAY_START", "DECAY"),
        help="in steps; default: as MLPerf's 8000 48000 24000, in proportion to all steps",
    )
    add = parser.add_argument_group("tables").add_argument
    add("--strategy", default="auto", help="which ranks have which tables (auto)")
    storages = ("DRAM", "DRAM_SSDHASH", "DRAM_LEVELDB", "HBM", "HBM_DRAM")
    add("--storage", choices=storages, default="DRAM", help="tiers of large tables (DRAM)")
    add("--storage_path", metavar="FOLDER", help="on the disk for rows; one for each training")
    add("--first_tier", default="4GiB", help="for rows of a rank, with lower tiers (4GiB)")
    add("--prefetch", choices=("off", "exact", "stale"), default="exact", help="of rows (exact)")


def main(options):
    """Trains, and returns the metrics on the test part, those of all ranks."""
    numbers = "batch_size", "epochs", "steps_per_epoch", "evaluate_every", "checkpoint_every"
    for name in (*numbers, "measure_reader"):
        checks.positive_or_none(getattr(options, name), name)
    ksd.init()
    check_checkpoint(options)
    keras.utils.set_random_seed(SEED)  # dense layers that begin alike on all ranks
    train, test = Part(options.data, "train"), Part(options.data, "test")
    if not len(test):
        raise ValueError(
            "`--data` must have samples to test on. Preprocess more lines, or with a larger "
            f"`--test_fraction`. Received: --data {options.data}"
        )
    steps_per_epoch = options.steps_per_epoch or len(train) // options.batch_size
    model = make_compiled_model(options, train.num_ids, steps_per_epoch * options.epochs)
    if ksd.rank() == 0:
        model.get_layer("tables").plan.print()
    checkpoint = checkpoint_of(options)
    first_batch = (lambda: checkpoint.first_batch) if checkpoint else (lambda: 0)
    batches = training_batches(train, options.batch_size, first_batch)
    if options.prefetch != "off":
        batches = keras_sparse.data.prefetch_lookups(batches, model, mode=options.prefetch)
    if options.measure_reader:
        return measure.run(model, train, options)
    history = model.fit(
        batches,
        epochs=options.epochs,
        steps_per_epoch=steps_per_epoch,
        validation_data=evaluation_batches(test, options.batch_size),
        validation_freq=epochs_of_tests(options),
        shuffle=False,
        callbacks=[
            ksd.MetricAverage(),
            keras_sparse.callbacks.BroadcastGlobalVariables(),
            *([checkpoint] if checkpoint else []),
        ],
        verbose=2 if ksd.rank() == 0 else 0,
    )
    if not history.epoch:  # all of it was done before
        model.evaluate(evaluation_batches(test, options.batch_size), verbose=0)
        metrics = ksd.average_metrics(model)
    else:
        metrics = {name: history.history[f"val_{name}"][-1] for name in ("loss", "auc")}
    if ksd.rank() == 0:
        print(f"Test: loss {metrics['loss']:.4f}, AUC {metrics['auc']:.4f}")
    if options.export:
        model.export(options.export, verbose=False)
    return metrics


def check_checkpoint(options):
    for name in ("checkpoint_every", "resume"):
        if getattr(options, name) and not options.checkpoint:
            raise ValueError(
                f"`--{name}` must come with --checkpoint FOLDER, where checkpoints are. "
                f"Received: --{name} alone"
            )


def make_compiled_model(options, num_ids, num_steps):
    name, num_slots = OPTIMIZERS[options.optimizer]
    row_bytes = 4 * options.embedding_dim * (1 + num_slots)
    given = options.storage, options.storage_path, options.first_tier
    model = make_model(
        num_ids,
        options.embedding_dim,
        options.bottom,
        options.top,
        Tiers(*given, num_ids, row_bytes).of,
        num_slots=num_slots,
        strategy=options.strategy,
    )
    if options.schedule:
        schedule = WarmupThenDecay(options.learning_rate, *options.schedule)
    else:
        schedule = WarmupThenDecay.in_proportion(options.learning_rate, num_steps)
    model.compile(
        ksd.DistributedOptimizer(getattr(keras_sparse.optimizers, name)(schedule)),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(num_thresholds=8000, from_logits=True, name="auc")],
    )
    return model


def epochs_of_tests(options):
    every = options.evaluate_every or options.epochs
    return [*range(every, options.epochs, every), options.epochs]


def checkpoint_of(options):
    if not options.checkpoint:
        return None
    return keras_sparse.callbacks.Checkpoint(
        options.checkpoint,
        every_steps=options.checkpoint_every,
        keep=2,
        resume=options.resume,
        skip_batches=False,  # `training_batches` begins with its `first_batch`
        on_signal="SIGTERM",
    )
