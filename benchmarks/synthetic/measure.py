"""Times steps of a synthetic model, on each rank of those that this process is one of."""

import dataclasses
import statistics
import time

from benchmarks import bandwidth
from benchmarks.gpu import timeline
from benchmarks.process import forget_peak
from benchmarks.process import resident_bytes
from benchmarks.report import say
from benchmarks.synthetic.training import num_slots_of
from benchmarks.synthetic.training import Training
from keras_sparse import distribute
from keras_sparse.distribute.ranks.collectives import gather_objects

TURN = 10
SECONDS_BETWEEN = 5.0


@dataclasses.dataclass
class Timed:
    """What a way to keep tables took on this rank: milliseconds of steps, losses, and bytes."""

    times: list
    losses: list
    table_bytes: tuple = (0, 0)


def on_first_rank(*words):
    if distribute.rank() == 0:
        say(*words)


def measure(model, options):
    """Returns what is to be told, the same on all ranks: a dict that can be written as JSON."""
    rates = measure_gather(model) if options.bandwidth else None
    forget_peak()
    trainings = {}
    for api in options.api:
        on_first_rank(f"{model.name}, {api}: making {len(model.tables)} tables and their batches")
        trainings[api] = training = Training(api, model, options)
        if api == "ours" and distribute.rank() == 0:
            print(f"{training.tables.layer.plan}\n", flush=True)
        if options.make_rows == "all":
            on_first_rank("  making all rows")
            training.tables.make_rows()
    timed = time_steps(trainings, options)
    trace = trace_steps(trainings["ours"], model, options) if options.trace else None
    everyone = gather_objects((timed, resident_bytes(), resident_bytes("VmHWM")), "synthetic.timed")
    return {
        "model": model.name,
        "tables": len(model.tables),
        "table_bytes": 4 * model.num_elements,
        "num_ranks": distribute.size(),
        "options": {
            name: str(value) if name == "json" else value for name, value in vars(options).items()
        },
        "plan": plan_facts(trainings["ours"].tables.layer.plan) if "ours" in trainings else None,
        "gather": rates,
        "memory": {
            "resident_bytes": [each[1] for each in everyone],
            "peak_bytes": [each[2] for each in everyone],
        },
        "apis": {
            api: summary(api, [each[0][api] for each in everyone], model, options)
            for api in options.api
        },
        "gpu_ms": model.gpu_ms,
        "trace": trace,
    }


def measure_gather(model):
    """GB/s at which one process of this machine reads the rows of a sample at random.

    It is the mean over the widths of rows: that of all bytes over the time of all.
    """
    on_first_rank("reading rows at random")
    parts = {4 * width: num_bytes for width, num_bytes in model.gathered_bytes().items()}
    found = None
    if distribute.rank() == 0:
        rates = bandwidth.measure_rates(tuple(parts))
        of_width = {row: rates["at random", row, True] for row in parts}
        seconds = sum(num_bytes / of_width[row] for row, num_bytes in parts.items())
        found = {
            "row_rates": of_width,
            "rate": sum(parts.values()) / seconds,
            "in_order_rate": rates["in order", None, True],
        }
    return gather_objects(found, "synthetic.gather")[0]


def time_steps(trainings, options):
    """Warms up and times: with two ways they take turns of some steps. Returns a `Timed` each."""
    timed = {api: Timed([], []) for api in trainings}
    for api, training in trainings.items():
        on_first_rank(f"{api}: {options.warm_steps} steps before the clock starts")
        for i in range(options.warm_steps):
            timed[api].losses.append(training.step(training.batch(i)))
    said = time.monotonic()
    for first in range(0, options.num_steps, TURN):
        for api, training in trainings.items():
            for i in range(first, min(first + TURN, options.num_steps)):
                batch = training.batch(options.warm_steps + i)
                start = time.perf_counter()
                timed[api].losses.append(training.step(batch))
                timed[api].times.append((time.perf_counter() - start) * 1e3)
                if time.monotonic() - said > SECONDS_BETWEEN:
                    said = time.monotonic()
                    text = f"{api}: step {i + 1} of {options.num_steps}"
                    on_first_rank(f"  {text}, {statistics.median(timed[api].times):.4g} ms")
    for api, training in trainings.items():
        timed[api].table_bytes = training.tables.bytes()
    return timed


def trace_steps(training, model, options):
    """Facts of `timeline.record`, with what the steps look up."""
    facts = timeline.record(lambda i: training.step(training.batch(i)), options.trace)
    slots = num_slots_of(options.optimizer)
    ids = training.batch(0)[0].numpy()
    return facts | {"lookups": timeline.lookups_of(model, ids, options.batch_size, slots)}


def summary(api, of_ranks, model, options):
    """What a way took. Of a step on ranks the slowest counts, as the others wait for it."""
    times = [max(each) for each in zip(*(timed.times for timed in of_ranks), strict=True)]
    seconds = statistics.median(times) / 1e3
    gathered = options.batch_size * sum(model.gathered_bytes().values()) if api != "dense" else 0
    losses = [statistics.mean(each) for each in zip(*(t.losses for t in of_ranks), strict=True)]
    return {
        "iteration_ms": seconds * 1e3,
        "fastest_ms": min(times),
        "times_ms": times,
        "samples_per_second": options.batch_size / seconds,
        "gathered_rate": gathered / seconds / 1e9,
        "table_memory_bytes": [timed.table_bytes[0] for timed in of_ranks],
        "table_disk_bytes": [timed.table_bytes[1] for timed in of_ranks],
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def plan_facts(plan):
    return {
        "strategy": plan.strategy,
        "num_ranks": plan.num_ranks,
        "rank_bytes": plan.rank_bytes.tolist(),
        "rank_seconds": plan.rank_seconds.tolist(),
    }
