"""A training that is cut off in an epoch goes on with the batch after the checkpoint."""

import contextlib
import functools
import gc
import re
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkpoint_cases
import keras_sparse
from checkpoint_cases import batches
from checkpoint_cases import content
from checkpoint_cases import dataset_of
from checkpoint_cases import make_model
from checkpoint_cases import names
from keras_sparse.callbacks import Checkpoint
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.saving import CheckpointInfo
from keras_sparse.saving import latest_checkpoint

# Four batches of 8, which most epochs have.
IDS, TARGETS = checkpoint_cases.IDS[:32], checkpoint_cases.TARGETS[:32]
ARGUMENTS = {"epochs": 2, "shuffle": False, "verbose": 0}


LONG = pytest.mark.slow("long history")


class Seen(keras.callbacks.Callback):
    """Notes what it is shown, and cuts the training off after a number of batches."""

    def __init__(self, cut=None):
        super().__init__()
        self.cut = cut
        self.batches = []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        self.first = batch

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        self.batches.append((step, self.epoch, self.first, batch))
        if len(self.batches) == self.cut:
            raise KeyboardInterrupt


def of_four(targets=TARGETS):
    return tf.data.Dataset.from_tensor_slices((IDS, np.float64(targets))).batch(8)


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return next(batches(number, 1))


def shuffled_by_epoch():
    samples = tf.data.Dataset.from_tensor_slices((IDS, TARGETS))
    return tf.data.Dataset.range(2).flat_map(lambda epoch: samples.shuffle(32, seed=epoch).batch(8))


# What `fit` is given: its data begins anew with each epoch, goes on over epochs, or both in turns.
DATA = {
    "arrays": lambda model: {"x": IDS, "y": TARGETS, "batch_size": 8},
    "arrays, of which an epoch is a part": lambda model: {
        "x": IDS,
        "y": TARGETS,
        "batch_size": 8,
        "steps_per_epoch": 3,
        "epochs": 3,
    },
    "a dataset": lambda model: {"x": of_four(TARGETS > 0), "class_weight": {0: 0.5, 1: 2.0}},
    "a dataset of unknown length": lambda model: {"x": dataset_of(lambda: batches(number=4))},
    "an endless dataset": lambda model: {
        "x": of_four().skip(1).repeat(),
        "steps_per_epoch": 4,
        "validation_data": of_four().take(2),
    },
    "a dataset that ends in an epoch": lambda model: {
        "x": of_four().concatenate(dataset_of(lambda: batches(number=1))),
        "steps_per_epoch": 3,
        "epochs": 3,
    },
    "an order by the epoch": lambda model: {"x": shuffled_by_epoch(), "steps_per_epoch": 4},
    "a generator": lambda model: {"x": batches(), "steps_per_epoch": 4},
    "a sequence": lambda model: {"x": Sequence(workers=2, max_queue_size=2)},
    "a later epoch": lambda model: {"x": of_four(), "initial_epoch": 2, "epochs": 4},
    "lookups ahead": lambda model: {
        "x": keras_sparse.data.prefetch_lookups(
            dataset_of(batches), model, num_threads=2, capacity=3
        ),
        "steps_per_epoch": 4,
    },
}


def shuffled(**options):
    """Data of `fit` that is shuffled by a stage."""
    samples = tf.data.Dataset.from_tensor_slices((IDS, TARGETS))
    return samples.shuffle(32, **options).batch(8)


# As `fit` of Keras does by default.
SHUFFLED = {
    "arrays": lambda model: {"x": IDS, "y": TARGETS, "batch_size": 8, "shuffle": True},
    "a batch": lambda model: {"x": IDS, "y": TARGETS, "batch_size": 8, "shuffle": "batch"},
    "a sequence": lambda model: {"x": Sequence(), "shuffle": True},
    "a dataset": lambda model: {"x": shuffled().map(lambda x, y: (x, y))},
    "a dataset with a seed": lambda model: {"x": shuffled(seed=3).prefetch(1)},
    "a dataset of one order": lambda model: {"x": shuffled(reshuffle_each_iteration=False)},
    "orders that go on": lambda model: {"x": shuffled(seed=3).repeat(), "steps_per_epoch": 4},
}


def begin(seed):
    """Sets all seeds as a new process does, or is without one."""
    if seed is None:
        tf.random.set_seed(None)
    else:
        keras.utils.set_random_seed(seed)


def train(model, data, callbacks=(), cut=None):
    """Returns what callbacks saw until it was cut off."""
    seen = Seen(cut)
    with contextlib.nullcontext() if cut is None else pytest.raises(KeyboardInterrupt):
        model.fit(**{**ARGUMENTS, "callbacks": [*callbacks, seen], **data(model)})
    return seen.batches


@functools.cache
def uncut(data, run_eagerly=True):
    """Returns what callbacks saw of a whole training, and the model's content after it."""
    seen = train(model := make_model(run_eagerly=run_eagerly), DATA[data])
    return seen, content(model)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
@pytest.mark.parametrize("data", DATA)
def test_ends_as_if_it_had_never_been_cut_off(data, tmp_path):
    make = functools.partial(Checkpoint, tmp_path, every_steps=2, keep=1, verbose=False)
    expected_seen, expected = uncut(data)
    for cut in (3, 5, None):
        seen = train(model := make_model(), DATA[data], [make()], cut)
        first = seen[0][0] - 1
        assert seen == expected_seen[first:][:cut]
        assert first == {3: 0, 5: 2, None: 6}[cut]
    assert content(model) == expected


@pytest.mark.parametrize(
    ("data", "seed", "cut", "words"),
    [
        ("arrays", None, 3, r"shuffle=True for arrays, with 2 batches to skip"),
        ("a batch", None, 7, "shuffle='batch' for arrays"),
        ("a sequence", None, 3, "shuffle=True for a PyDataset"),
        ("a sequence", 5, 7, "shuffle=True for a PyDataset"),
        ("a dataset", None, 3, "`shuffle` without a seed"),
        ("a dataset", 5, 7, "`shuffle` that draws an order each epoch"),
        ("a dataset with a seed", None, 7, "`shuffle` that draws an order each epoch"),
        ("a dataset of one order", None, 3, "`shuffle` without a seed"),
        ("orders that go on", None, 7, None),
        # Keras draws one order of arrays from a seed, and each epoch has it.
        ("arrays", 5, 3, None),
        ("arrays", 5, 7, None),
        ("a batch", 5, 7, None),
        # Only the first order that is drawn from a seed is that of a new process.
        ("a sequence", 5, 3, None),
        ("a dataset", 5, 3, None),
        ("a dataset with a seed", None, 3, None),
        ("a dataset of one order", 5, 7, None),
    ],
)
def test_warns_of_an_order_that_a_new_process_draws_anew(data, seed, cut, words, tmp_path):
    make = functools.partial(Checkpoint, tmp_path, every_steps=2, verbose=False)
    begin(seed)
    train(expected := make_model(), SHUFFLED[data])
    begin(seed)
    train(make_model(), SHUFFLED[data], [make()], cut)
    begin(seed)
    told = contextlib.nullcontext() if words is None else pytest.warns(UserWarning, match=words)
    with told as caught:
        train(model := make_model(), SHUFFLED[data], [make()])
    assert words is None or [each.category for each in caught].count(UserWarning) == 1
    assert (content(model) == content(expected)) == (words is None)


@pytest.mark.parametrize(("every_steps", "skips"), [(4, True), (2, False)])
def test_an_order_is_nobodys_matter_where_no_batch_is_skipped(every_steps, skips, tmp_path):
    begin(None)
    options = {"every_steps": every_steps, "skip_batches": skips, "verbose": False}
    for cut in (7, None):
        train(make_model(), SHUFFLED["arrays"], [Checkpoint(tmp_path, **options)], cut)
    assert names(tmp_path)[-1] == "step-000000008"


def test_a_finished_training_goes_on_with_more_epochs(tmp_path):
    def data(model, epochs=2):
        return {"x": of_four().repeat().skip(2), "steps_per_epoch": 3, "epochs": epochs}

    train(expected := make_model(), data)
    for epochs in (1, 1, 2):  # the second has nothing to do, and saves where it is
        callback = Checkpoint(tmp_path, verbose=False)
        is_done = epochs == 1 and names(tmp_path)
        with pytest.warns(match="returns without a step") if is_done else contextlib.nullcontext():
            train(model := make_model(), functools.partial(data, epochs=epochs), [callback])
    assert content(model) == content(expected)


def test_two_callbacks_both_know_where_they_are(tmp_path):
    def data(model):
        return {"x": of_four().repeat(), "steps_per_epoch": 3, "epochs": 3}

    folders = [tmp_path / "seldom", tmp_path / "often"]
    for cut in (5, None):
        pairs = zip(folders, (4, 1), strict=True)
        callbacks = [Checkpoint(*pair, verbose=False) for pair in pairs]
        train(make_model(), data, callbacks, cut)
    saved = [CheckpointInfo.read(folder / "step-000000008").training for folder in folders]
    assert saved == [{"epoch": 2, "batch": 2, "position": 8}] * 2


def test_lets_go_of_the_data_after_it(tmp_path):
    iterated = []

    def generate():
        class Iteration:
            pass

        iterated.append(weakref.ref(iteration := Iteration()))
        yield from batches()
        del iteration

    data = dataset_of(generate)
    callback = Checkpoint(tmp_path, verbose=False)
    train(make_model(), lambda model: {"x": data, "steps_per_epoch": 2}, [callback])
    gc.collect()
    assert [each() for each in iterated] == [None]


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
@pytest.mark.parametrize(
    ("steps_per_execution", "data"),
    # Of Keras' graphs the call that finds no more data counts as a step.
    [(1, "arrays"), (2, "arrays"), (None, "a dataset of unknown length")],
)
def test_a_training_that_was_told_to_stop_goes_on_in_its_epoch(steps_per_execution, data, tmp_path):
    options = {"run_eagerly": False, "steps_per_execution": steps_per_execution}
    options = {} if steps_per_execution is None else options
    checkpoint = Checkpoint(tmp_path, verbose=False)
    train(make_model(**options), DATA[data], [checkpoint, Stop(6)])
    assert names(tmp_path) == ["step-000000004", "step-000000006"]
    # Of other executions: what the first of them has had already is not trained on twice.
    model = make_model(**(options and {**options, "steps_per_execution": 3}))
    train(model, DATA[data], [Checkpoint(tmp_path, verbose=False)])
    assert content(model) == uncut(data, run_eagerly=not options)[1]


class Stop(keras.callbacks.Callback):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def on_train_batch_end(self, batch, logs=None):
        _, count = accumulation(self.model.optimizer)
        self.model.stop_training = count >= self.count


@pytest.mark.parametrize(
    ("per_execution", "every_steps"),
    [(1, 1), (1, 2), *(pytest.param(3, steps, marks=LONG) for steps in (1, None))],
)
def test_the_middle_of_an_accumulation_is_saved(per_execution, every_steps, tmp_path):
    def make():
        options = {"gradient_accumulation_steps": 3}
        optimizer = keras_sparse.optimizers.MultiOptimizer(
            {"embeddings": Adagrad(0.1, **options), "others": Adam(0.1, **options)}
        )
        model = make_model(compiled=False)
        options = {"run_eagerly": per_execution == 1, "steps_per_execution": per_execution}
        model.compile(optimizer, loss="mse", **options)
        optimizer.build(model.trainable_variables)
        return model

    train(expected := make(), DATA["arrays"])
    # Of 8 batches, which make two updates and two thirds of one; some are told to stop.
    for cut, stop in ((None, 1), (2, 99), (None, 5), (2, 99), (None, 99)):
        callback = Checkpoint(tmp_path, every_steps=every_steps, verbose=False)
        cut = cut and -(-cut // per_execution)
        train(model := make(), DATA["arrays"], [callback, Stop(stop)], cut)
    assert content(model) == content(expected)
    training = CheckpointInfo.read(latest_checkpoint(tmp_path)).training
    assert training == {"epoch": 2, "batch": 0, "accumulated": 2, "position": 0}


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras' own
@pytest.mark.parametrize(
    "data",
    [
        lambda model: {"x": of_four(), "steps_per_epoch": 50},
        lambda model: {"x": dataset_of(lambda: batches(number=4))},
    ],
)
def test_an_epoch_whose_data_has_ended_is_over_when_training_stops(data, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    train(make_model(), data, [Stop(), Checkpoint(tmp_path, verbose=False)])
    saved = CheckpointInfo.read(tmp_path / "step-000000004").training
    assert saved == {"epoch": 1, "batch": 0, "position": 0}


def test_a_loop_of_ones_own_has_the_whole_epoch_again(tmp_path):
    options = {"every_steps": 2, "verbose": False}
    train(make_model(), DATA["arrays"], [Checkpoint(tmp_path, **options)], 6)

    class Loop(keras.callbacks.Callback):
        """Trains another model, whose place in its data is not that of the `fit` around it."""

        def on_epoch_begin(self, epoch, logs=None):
            model = make_model()
            callbacks = keras.callbacks.CallbackList([Checkpoint(tmp_path, **options)], model=model)
            with pytest.warns(UserWarning, match="All batches of epoch 2 are trained again"):
                callbacks.on_train_begin()
            callbacks.on_epoch_begin(1)
            for batch in range(4):
                model.train_on_batch(IDS[8 * batch :][:8], TARGETS[8 * batch :][:8])
                callbacks.on_train_batch_end(batch)
            callbacks.on_epoch_end(1)
            callbacks.on_train_end()

    seen = train(make_model(), lambda model: {**DATA["arrays"](model), "epochs": 1}, [Loop()])
    assert seen == uncut("arrays")[0][:4]
    saved = CheckpointInfo.read(tmp_path / "step-000000010").training
    assert saved == {"epoch": 2, "batch": 0}


def test_the_bar_of_batches_that_are_passed_over_is_filled_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("keras_sparse.utils.progress_bar._SECONDS_UNTIL_SHOWN", 0)
    train(make_model(), DATA["arrays"], [Checkpoint(tmp_path, every_steps=3)], 4)
    capsys.readouterr()
    train(make_model(), DATA["arrays"], [Checkpoint(tmp_path, every_steps=20)], 1)
    assert len(re.findall(r"3/3\S* .*/batch", capsys.readouterr().out)) == 1
