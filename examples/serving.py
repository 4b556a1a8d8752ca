"""Answers requests by a model whose tables lie on tiers, and follows the training that goes on.

python examples/serving.py train run        # on a stream of clicks, until Ctrl-C
python examples/serving.py serve run        # in another terminal: http://127.0.0.1:8000
python examples/serving.py ask              # in a third one: some requests, and how long they take

The training saves a delta a hundred steps into the folder `run`. The server loads the last state
of it, and from then on only what has come since, in place, while it answers. Its tables have the
hottest rows in memory and the others on an SSD.

The server needs two packages more: pip install flask waitress
"""

import argparse
import collections
import contextlib
import json
import pathlib
import threading
import time
import urllib.error
import urllib.request

import keras
import numpy as np
import tensorflow as tf

import keras_sparse

NUM_WORDS = 8
# Of the stream: how many words there are, and how steeply they differ in how often they come.
VOCABULARY = 100_000
STEEPNESS = 1.2
# What changes in so many steps is one delta.
SAVED_STEPS = 100


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.command == "train":
        train(options.folder, options.steps)
    elif options.command == "serve":
        serve(options)
    else:
        ask(f"http://{options.host}:{options.port}", options.requests)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train on a stream, and save what changes")
    training.add_argument("folder")
    training.add_argument("--steps", type=int, default=10**7, help="default: until Ctrl-C")
    serving = commands.add_parser("serve", help="answer requests, and follow the training")
    serving.add_argument("folder")
    serving.add_argument("--memory", default="8MB", help="of the table's first tier; default: 8MB")
    serving.add_argument("--rows", default="rows", help="folder of the tier below; default: rows")
    serving.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
    asking = commands.add_parser("ask", help="send requests")
    asking.add_argument("--requests", type=int, default=200)
    for each in (serving, asking):
        each.add_argument("--host", default="127.0.0.1")
        each.add_argument("--port", type=int, default=8000)
    return parser.parse_args(arguments)


def make_model(storage=None):
    """A dynamic table, of which a sample pools some rows, and a small dense part."""
    words = keras.Input((NUM_WORDS,), dtype="int64")
    rows = keras_sparse.layers.Embedding(None, 16, "mean", storage=storage, name="words")(words)
    hidden = keras.layers.Dense(16, activation="relu")(rows)
    return keras.Model(words, keras.layers.Dense(1, activation="sigmoid")(hidden))


def draw(rng, num_samples):
    """Returns words of a stream and whether they were clicked."""
    words = rng.zipf(STEEPNESS, (num_samples, NUM_WORDS)) % VOCABULARY
    return words, np.float32(np.sin(words).mean(axis=1, keepdims=True) > 0)


def train(folder, num_steps):
    """Trains on the stream and saves as it goes."""
    rng = np.random.default_rng()
    model = make_model()
    # Adagrad moves no row without a gradient: a server without optimizer can follow it.
    model.compile(keras_sparse.optimizers.Adagrad(0.05), loss="binary_crossentropy")
    stream = tf.data.Dataset.from_generator(
        lambda: iter(lambda: draw(rng, 256), None),
        output_signature=(
            tf.TensorSpec((None, NUM_WORDS), tf.int64),
            tf.TensorSpec((None, 1), tf.float32),
        ),
    )
    checkpoint = keras_sparse.callbacks.Checkpoint(
        folder,
        every_steps=20 * SAVED_STEPS,
        delta_every=SAVED_STEPS,
        keep=2,
        skip_batches=False,  # what has streamed by does not come again
    )
    model.fit(
        stream,
        steps_per_epoch=SAVED_STEPS,
        epochs=max(1, num_steps // SAVED_STEPS),
        shuffle=False,
        verbose=2,
        callbacks=[checkpoint],
    )


class Server:
    """A model that answers, follows its training and keeps the rows asked for most in memory.

    Args:
        folder: Path of what the training saves.
        storage: `keras_sparse.StorageOption` of the table.
        every: Float. Seconds between two looks into the folder.
    """

    def __init__(self, folder, storage, every):
        self.model = make_model(storage)
        self.table = self.model.get_layer("words").embeddings
        # An answer is of one state of the training: none comes while it is computed.
        self.lock = threading.Lock()
        self.follower = keras_sparse.serving.follow(self.model, folder, every, self.lock)
        self.every = every
        self.asked = collections.Counter()
        signature = [tf.TensorSpec((None, NUM_WORDS), tf.int64)]
        self.predict = tf.function(self.model, input_signature=signature)

    def score(self, words):
        """Returns the scores of samples, and the step of the training that they are of."""
        words = np.array(words)
        if words.dtype.kind != "i" or words.ndim != 2 or words.shape[1] != NUM_WORDS:
            raise ValueError(
                f"`words` must be a list of lists of {NUM_WORDS} integers. Received: an array of "
                f"shape {words.shape} and dtype {words.dtype}"
            )
        with self.lock:
            scores, step = self.predict(words).numpy(), self.follower.step
        self.asked.update(words.ravel().tolist())
        return {"scores": scores[:, 0].tolist(), "step": step}

    def keep_warm(self):
        """Brings what is asked for most into memory, again and again: lookups move nothing."""
        while True:
            time.sleep(self.every)
            self.warm()

    def warm(self):
        """Does so once, and returns how many rows came."""
        hottest = [word for word, _ in self.asked.copy().most_common(VOCABULARY // 10)]
        return self.table.promote(np.array(hottest[::-1], np.int64))

    def state(self):
        """Returns what one would like to see of a server."""
        stats = self.table.stats()
        tiers = {name: tier["rows"] for name, tier in stats["tiers"].items()}
        return {
            "step": self.follower.step,
            "rows": tiers,
            "hits_in_memory": stats["tiers"]["DRAM"]["hits"],
            "lookups": stats["lookups"],
            "error": None if self.follower.error is None else repr(self.follower.error),
        }


def make_app(server):
    """Returns the web application of a server."""
    import flask

    app = flask.Flask("serving")

    @app.post("/score")
    def score():
        try:
            return server.score(flask.request.get_json()["words"])
        except (KeyError, TypeError, ValueError) as error:
            return {"error": str(error)}, 400

    @app.get("/state")
    def state():
        return server.state()

    return app


def serve(options):
    """Answers requests until it is stopped."""
    import waitress

    wait_for_training(options.folder)
    storage = keras_sparse.StorageOption(
        "DRAM_SSDHASH", storage_path=options.rows, storage_size=[options.memory, "10GB"]
    )
    server = Server(options.folder, storage, options.every)
    threading.Thread(target=server.keep_warm, daemon=True).start()
    print(f"step {server.follower.step}; http://{options.host}:{options.port}", flush=True)
    waitress.serve(make_app(server), host=options.host, port=options.port, threads=8)


def wait_for_training(folder):
    """Returns when there is a state to begin with."""
    is_said = False
    while not any(pathlib.Path(folder).glob("step-*")):
        if not is_said:
            print(f"Waiting for the first checkpoint in '{folder}'", flush=True)
        is_said = True
        time.sleep(0.2)


def ask(address, num_requests):
    """Sends requests, and prints how long they took."""
    try:
        urllib.request.urlopen(f"{address}/state").close()
    except urllib.error.URLError as error:
        raise SystemExit(f"No server answers at {address} yet: {error.reason}") from None
    rng = np.random.default_rng()
    times = []
    for _ in range(num_requests):
        words, _ = draw(rng, 1)
        body = json.dumps({"words": words.tolist()}).encode()
        request = urllib.request.Request(
            f"{address}/score", body, {"Content-Type": "application/json"}
        )
        begin = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            json.load(answer)
        times.append(1000 * (time.perf_counter() - begin))
    median, slowest = np.percentile(times, [50, 99])
    print(f"{num_requests} requests: median {median:.1f} ms, 99 % within {slowest:.1f} ms")
    with urllib.request.urlopen(f"{address}/state") as answer:
        print(json.dumps(json.load(answer), indent=1))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
