"""How long is a training step with tables in GPU memory, and where does its time go?

    make bench-gpu
    python -m benchmarks.gpu.steps --json FILE

First what decides: Tiny and Small of `benchmarks.synthetic_models`, whole models at batches of
65,536, and their dense parts alone, each with a timeline of a step (`benchmarks/gpu/timeline.py`).
Then the model of `benchmarks.async_lookup` with a tenth of its rows on the GPU and the others in
memory, with and without `prefetch_lookups`, and with all on the GPU, beside what the miss curve
predicts. `--kernels` names the file of `benchmarks.gpu.kernels`, which has the rates of copies.

Then W1 to W3 of `benchmarks/workloads.py`, batches of 8,192: lookup, a gradient that is there
already, and the update, each with 32 batches in turn, in one compiled function, so that calls from
Python are no part of it. And Tiny with its tables in memory, its dense part on the GPU.

Each part has a process and the GPU to itself. What fails, for want of memory perhaps, is left out,
and so is what is next once `--seconds` are over; the file has what came before.
"""

import argparse
import functools
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
from benchmarks.gpu import kernels
from benchmarks.gpu import timeline
from benchmarks.process import in_fresh_process

# Adam as all of it does it, or of the rows of a batch alone.
COLUMNS = ("sgd", "adagrad", "lazy_adam", "adam")
WORKLOADS = ("w1", "w2", "w3")

# What `benchmarks.async_lookup` is called with.
ON_GPU = ("--on-gpu", "--keys", "10000000", "--batch-size", "16384", "--rounds", "1")
ON_GPU += ("--drawn", "80", "--first-steps", "80", "--warm-steps", "40", "--steps", "40")
TRACED_STEPS = "3"


def measure_workloads(names, scale, rounds):
    """Returns a dict for each workload and column, with milliseconds of a step, and prints it."""
    import tensorflow as tf

    from benchmarks.peers import ours

    facts = []
    for name in names:
        workload = workloads.NAMES[name](scale)
        for column in COLUMNS:
            take_steps = ours.build(workload, column, in_one_call=True, storage="HBM")
            times = []
            for _ in range(rounds + 2):
                start = time.perf_counter()
                take_steps(0)
                tf.test.experimental.sync_devices()
                times.append((time.perf_counter() - start) * 1e3 / len(workload.ids))
            del take_steps  # and with it the tables
            gc.collect()
            facts.append({"workload": name, "column": column, "ms": times[2:]})
            print(f"{name} {column:9} {statistics.median(times[2:]):8.3f} ms", flush=True)
    return facts


def time_model(model, storage, options, copy_rate):
    """Returns what `benchmarks.synthetic_models` says of a model, whose dense part is a GPU's."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "facts.json")
        command = [sys.executable, "-m", "benchmarks.synthetic_models", "--model", model]
        command += ["--storage", storage, "--api", "ours", "dense", "--no-bandwidth"]
        command += ["--make_rows", "batch", "--num_data_batches", "2", "--num_steps", "30"]
        command += ["--trace", TRACED_STEPS if storage == "HBM" else "0"]
        command += ["--json", path, *options]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or str(done.returncode)).splitlines()[-1])
        facts = json.loads(path.read_text())
    for api, each in facts["apis"].items():
        ms = f"{each['iteration_ms']:8.2f} ms, fastest {each['fastest_ms']:.2f}"
        print(f"{model} {storage} {api:6} {ms}", flush=True)
    if facts["trace"]:
        print(timeline.table(facts["trace"], copy_rate), flush=True)
    return [{"model": model, "storage": storage, "apis": facts["apis"], "trace": facts["trace"]}]


def parts(options):
    """Yields the kind of each part, its name and a function that measures it, in order of worth."""
    has_kernels = options.kernels is not None and options.kernels.exists()
    ours = json.loads(options.kernels.read_text())["ours"] if has_kernels else []
    rates = {name.partition(" ")[2]: f"{rate:.3f}" for name, rate in kernels.rates_of(ours).items()}

    def of_models(names, storage):
        for model in names:
            rate = float(rates.get("on the GPU", 0))
            measure = functools.partial(time_model, model, storage, options.of_models, rate)
            yield "models", f"{model}, {storage}", measure

    yield from of_models(options.models, "HBM")
    if options.tiers:
        bus = ("--bus", rates["to the GPU"], rates["from the GPU"]) if rates else ()
        arguments = (*ON_GPU, *bus, *options.of_tiers)
        yield "tiers", "GPU memory over memory", lambda: async_lookup.main(arguments)
    steps = (measure_workloads, options.workloads, options.scale, options.rounds)
    yield "steps", "W1 to W3", lambda: in_fresh_process(*steps)
    yield from of_models(options.in_memory, "DRAM")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="*", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--models", nargs="*", default=("tiny", "small"))
    parser.add_argument("--in-memory", nargs="*", default=("tiny",), help="models, also so")
    parser.add_argument("--tiers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--kernels", type=pathlib.Path, help="the file of benchmarks.gpu.kernels")
    parser.add_argument("--rounds", type=int, default=5, help="of all batches (5)")
    parser.add_argument("--seconds", type=float, default=390, help="begin none after these (390)")
    parser.add_argument("--scale", type=float, default=1.0, help="rows of the workloads, x this")
    parser.add_argument("--of-models", type=str.split, default=(), help="more for synthetic_models")
    parser.add_argument("--of-tiers", type=str.split, default=(), help="more for async_lookup")
    parser.add_argument("--json", type=pathlib.Path, help="also write all of it to this file")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    begin = time.monotonic()
    facts = {"steps": [], "models": [], "tiers": "", "seconds": {}, "left_out": {}}
    for kind, name, measure in parts(options):
        start = time.monotonic()
        try:
            if start - begin > options.seconds:
                raise TimeoutError(f"{options.seconds:.0f} s are over")
            found = measure()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            facts["left_out"][name] = reason
            print(f"{name} is left out: {reason}", flush=True)
        else:
            facts[kind] += found
            facts["seconds"][name] = time.monotonic() - start
            print(f"({name}: {facts['seconds'][name]:.0f} s)\n", flush=True)
        if options.json:
            options.json.write_text(json.dumps(facts))
    print(f"In all {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
