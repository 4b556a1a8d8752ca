"""How long is a training step with tables in GPU memory, beside tables in memory and torch?

    make bench-gpu
    python -m benchmarks.gpu.steps --json FILE

W1 to W3 of `benchmarks/workloads.py`, batches of 8,192: lookup, a gradient that is there already,
and the update, each with 32 batches in turn. Those of TensorFlow are one compiled function, so that
calls from Python are no part of it; torch has none, and what its calls take is part of its steps.
Then Tiny and Small of `benchmarks.synthetic_models`, whole models at batches of 65,536, and their
dense parts alone; Tiny with its tables in memory, too, and the dense part on the GPU. At last the
DLRM of `benchmarks.async_lookup` with a tenth of its rows on the GPU and the others in memory, with
and without `prefetch_lookups`, and with all of them on the GPU. Each has a process and the GPU to
itself.
"""

import argparse
import gc
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import async_lookup
from benchmarks import workloads
from benchmarks.process import in_fresh_process

# Of each peer; Adam as all of it does it, or of the rows of a batch alone.
COLUMNS = {
    "keras_sparse, HBM": ("sgd", "adagrad", "lazy_adam", "adam"),
    "keras_sparse, DRAM": ("sgd", "adagrad", "lazy_adam", "adam"),
    "TensorFlow by hand": ("sgd", "adagrad", "lazy_adam"),
    "torch sparse": ("sgd", "adagrad", "lazy_adam"),
}

# What `benchmarks.async_lookup` is called with.
ON_GPU = ("--on-gpu", "--keys", "10000000", "--batch-size", "16384", "--rounds", "1")


def make_calls(peer, workload, column):
    """Returns a function that takes a step with each batch, and one that waits for the GPU."""
    if peer == "torch sparse":
        import torch

        from benchmarks.peers import torch_bags

        step = torch_bags.build(workload, column, device="cuda")
        return lambda: [step(i) for i in range(workloads.NUM_BATCHES)], torch.cuda.synchronize
    import tensorflow as tf

    from benchmarks.peers import ours
    from benchmarks.peers import tensorflow_variable

    if peer == "TensorFlow by hand":
        step = tensorflow_variable.build(workload, column, in_one_call=True)
    elif peer == "keras_sparse, DRAM":
        with tf.device("CPU"):  # as if the GPU were not there
            step = ours.build_grouped(workload, column, in_one_call=True)
            step(0)
    else:
        step = ours.build_grouped(workload, column, in_one_call=True, storage="HBM")
    return lambda: step(0), tf.test.experimental.sync_devices


def time_peer(peer, names, rounds):
    """Returns a dict for each workload and column, with milliseconds of a step."""
    facts = []
    for name in names:
        workload = workloads.NAMES[name]()
        for column in COLUMNS[peer]:
            take_steps, wait = make_calls(peer, workload, column)
            times = []
            for _ in range(rounds + 2):
                start = time.perf_counter()
                take_steps()
                wait()
                times.append((time.perf_counter() - start) * 1e3 / workloads.NUM_BATCHES)
            del take_steps  # and with it the tables
            gc.collect()
            facts.append({"workload": name, "peer": peer, "column": column, "ms": times[2:]})
    return facts


def time_model(model, storage):
    """Returns what `benchmarks.synthetic_models` says of a model, whose dense part is a GPU's."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "facts.json")
        command = [sys.executable, "-m", "benchmarks.synthetic_models", "--model", model]
        command += ["--storage", storage, "--api", "ours", "dense", "--no-bandwidth"]
        command += ["--make_rows", "batch", "--num_data_batches", "2", "--num_steps", "30"]
        subprocess.run([*command, "--json", path], check=True, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())["apis"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=("w1", "w2", "w3"))
    parser.add_argument("--models", nargs="*", default=("tiny", "small"))
    parser.add_argument("--in-memory", nargs="*", default=("tiny",), help="models, also so")
    parser.add_argument("--tiers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rounds", type=int, default=5, help="of all batches (5)")
    parser.add_argument("--json", type=pathlib.Path, help="also write all of it to this file")
    options = parser.parse_args()
    facts = []
    for peer in COLUMNS:
        try:
            found = in_fresh_process(time_peer, peer, options.workloads, options.rounds)
        except Exception as error:
            print(f"{peer} is left out: {error}".splitlines()[0], flush=True)
            continue
        for each in found:
            ms = statistics.median(each["ms"])
            print(f"{each['workload']} {peer:20} {each['column']:9} {ms:8.3f} ms", flush=True)
        facts += found
    of_models = {}
    names = [(each, "HBM") for each in options.models] + [
        (each, "DRAM") for each in options.in_memory
    ]
    for model, storage in names:
        found = of_models[f"{model}, {storage}"] = time_model(model, storage)
        for api, each in found.items():
            ms = f"{each['iteration_ms']:8.2f} ms, fastest {each['fastest_ms']:.2f}"
            print(f"{model} {storage} {api:6} {ms}", flush=True)
    of_tiers = ""
    try:
        of_tiers = async_lookup.main(ON_GPU) if options.tiers else ""
    except Exception as error:
        print(f"GPU memory over memory is left out: {error}".splitlines()[0], flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({"steps": facts, "models": of_models, "tiers": of_tiers})
        )


if __name__ == "__main__":
    main()
