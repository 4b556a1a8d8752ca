"""A rank of `benchmarks.several_hosts`: trains, and rank 0 prints a line of JSON."""

import json
import pathlib
import statistics
import time

import keras
import numpy as np

import keras_sparse
import keras_sparse.distribute as ksd
from benchmarks.hosts import DEVICE

NUM_TABLES, INPUT_DIM, OUTPUT_DIM, BATCH_SIZE = 8, 100_000, 64, 2048  # the last: of a rank
WARM_STEPS, NUM_STEPS = 5, 40


def make_model(cost_model):
    """Eight tables, half of them on each rank, and next to nothing else."""
    tables = [keras_sparse.layers.Embedding(INPUT_DIM, OUTPUT_DIM) for _ in range(NUM_TABLES)]
    layer = keras_sparse.layers.DistributedEmbedding(
        tables, num_slots=1, cost_model=cost_model, output_mode="concat"
    )
    inputs = keras.Input((NUM_TABLES,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.01)), "mse")
    return model, layer.plan


def sent_bytes():
    """All that has left this host so far, headers included."""
    return int(pathlib.Path(f"/sys/class/net/{DEVICE}/statistics/tx_bytes").read_text())


def main():
    ksd.init()
    cost_model = ksd.CostModel.measure(batch_size=BATCH_SIZE)
    model, plan = make_model(cost_model)
    rng = np.random.default_rng(ksd.rank())
    labels = np.zeros((BATCH_SIZE, 1), np.float32)
    milliseconds = []
    for step in range(WARM_STEPS + NUM_STEPS):
        ids = rng.integers(0, INPUT_DIM, (BATCH_SIZE, NUM_TABLES))
        if step == WARM_STEPS:
            sent = sent_bytes()
        start = time.perf_counter()
        model.train_on_batch(ids, labels)
        milliseconds.append((time.perf_counter() - start) * 1e3)
    if ksd.rank() == 0:
        measured = {
            "milliseconds": statistics.median(milliseconds[WARM_STEPS:]),
            "predicted": plan.step_seconds * 1e3,
            "sent": (sent_bytes() - sent) / NUM_STEPS,
            "network_bandwidth": cost_model.network_bandwidth,
        }
        print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
