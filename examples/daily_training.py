"""Trains a model further on each day's data, and lets servers follow it, or go back a day.

    python examples/daily_training.py [--folder days]

Each day has a folder of checkpoints of its own, and begins from the one of the day before. Each
training is cut off once, as by a kill, and run again.
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np

import keras_sparse
from keras_sparse import saving

DAYS = 3


def make_model():
    keras.utils.set_random_seed(0)  # which a new process would begin with, too
    items = keras.Input((3,), dtype="int64")
    rows = keras_sparse.layers.Embedding(None, 16, combiner="sum", name="items")(items)
    model = keras.Model(items, keras.layers.Dense(1)(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    return model


def data_of(day):
    """Items of the day, some of which are new, and how often they were bought."""
    items = np.random.default_rng(day).integers(1000 * day, 1000 * day + 3000, (800, 3))
    return items, np.float32(items[:, :1] % 3 == 0)


class Kill(keras.callbacks.Callback):
    """Cuts a training off after a number of batches."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.after:
            raise KeyboardInterrupt


def train(folder, day, *callbacks):
    """Trains on one day, or goes on with it, in a new model as a new process has it."""
    checkpoint = keras_sparse.callbacks.Checkpoint(
        folder / f"day-{day}",
        every_steps=10,
        delta_every=5,
        keep=2,
        begin_from=saving.latest_checkpoint(folder / f"day-{day - 1}"),
    )
    model = make_model()
    ids, targets = data_of(day)
    model.fit(ids, targets, 32, shuffle=False, verbose=0, callbacks=[checkpoint, *callbacks])
    return model


def main(arguments=None):
    """Returns the predictions of the training, of a server that follows and of one a day behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, help="where days are saved; a new one")
    options = parser.parse_args(arguments)
    folder = options.folder or pathlib.Path(tempfile.mkdtemp())
    server, careful = make_model(), make_model()
    for day in range(DAYS):
        try:
            train(folder, day, Kill(after=13))
        except KeyboardInterrupt:
            print(f"day {day} was cut off")
        # A server goes on to another folder with the model that it has.
        follower = keras_sparse.serving.follow(server, folder / f"day-{day}", every=1)
        trained = train(folder, day)
        follower.look()
        print(f"day {day}: {follower.step} steps are served, from {follower.path.parent.name}")
        follower.stop()
        if day == DAYS - 2:
            saving.load_checkpoint(careful, folder / f"day-{day}")
    asked = data_of(DAYS - 1)[0]
    answers = [model.predict(asked, verbose=0) for model in (trained, server, careful)]
    # The last day was bad.
    with keras_sparse.serving.follow(server, folder / f"day-{DAYS - 2}") as follower:
        print(f"went back to {follower.path.parent.name}, {follower.step} steps")
        answers.append(server.predict(asked, verbose=0))
    return answers


if __name__ == "__main__":
    main()
