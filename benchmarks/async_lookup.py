"""What does a training step cost when the records of coming batches are fetched ahead?

    python -m benchmarks.async_lookup [--keys 20000000] [--rounds 3] [--folder FOLDER]

A DLRM like that of W4 on one dynamic table: 26 keys a sample, rows of 64, batches of 2048, Adagrad,
in one process. Every key has its row before the clock starts, and no batch comes twice. It trains
with lookups in the step (`off`) and with those of `keras_sparse.data.prefetch_lookups`, `exact` and
`stale`, which take turns in one process on one table. There are batches left when a turn ends, so
that there is work ahead at all times; what is on its way to the disk is there before the next turn.

With a tenth of the rows in memory, through the page cache and past it, two more take their turns:
the lookup and the update of the table, and the dense part with rows that are given. No step can be
faster than the larger of the two; the aim for `exact` is 1.15 of it. With all rows in memory the
aim is 1.03 of `off`. With `--on-gpu` the first tier is the memory of the GPU that computes the
dense part, over memory. With `--drawn N` batches come again: N are drawn, and taken in turn. Then
the rows that miss the first tier are predicted by the miss curve of these batches, and, with the
rates of copies between memory and GPU (`--bus`), a step of the GPU over memory. Of steps on a GPU
it prints timelines, too (`benchmarks/gpu/timeline.py`).

`--warm-steps` are steps of a turn before its clock starts, `--first-steps` those that fill memory.
"""

import itertools
import os
import statistics
import tempfile
import time

import numpy as np

from benchmarks import storage_tiers
from benchmarks import workloads
from benchmarks.gpu import timeline
from benchmarks.memory import DIM
from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.timing import rotated
from benchmarks.training import import_rows
from benchmarks.training import make_storage
from benchmarks.training import RECORD_BYTES

TITLE = "Lookups ahead of their steps, ms"
# Tiers, the share of the keys that the first one holds, and whether it goes past the page cache.
CASES = {
    "a tenth in memory, past the page cache": ("DRAM_SSDHASH", 0.1, True),
    "a tenth in memory, page cache": ("DRAM_SSDHASH", 0.1, False),
    "all in memory": ("DRAM", 1.0, False),
}
CASES_ON_GPU = {
    "a tenth on the GPU, others in memory": ("HBM_DRAM", 0.1, False),
    "all on the GPU": ("HBM", 1.0, False),
}
MODES = ("off", "exact", "stale")
ALONE = ("lookup and update alone", "compute alone")
COUNTS = ("used", "missed", "waited_ns", "staleness_sum")
STAGED = ("used", "missed", "waited a step", "staleness max, mean")
HOTNESS, NUM_FEATURES = 26, 13
WARM_STEPS = 64  # of a turn; "auto" has settled by then
BATCHES_AHEAD = 16  # beyond those of a turn's steps
FOLLOWED = 16  # one key in so many, for the miss curve
MOST_ON_GPU = 2  # times all on the GPU, with a tenth there
TRACED = ("off", "exact")  # on a GPU
TRACED_STEPS = 3


def make_head(dim):
    """The dense part of W4, of rows and features."""
    import keras

    rows, features = keras.Input((HOTNESS, dim)), keras.Input((NUM_FEATURES,))
    bottom = features
    for units in (64, dim):
        bottom = keras.layers.Dense(units, "relu")(bottom)
    vectors = keras.layers.Concatenate(1)([keras.layers.Reshape((1, dim))(bottom), rows])
    products = keras.layers.Flatten()(keras.layers.Dot(2)([vectors, vectors]))
    left, right = np.tril_indices(HOTNESS + 1, -1)
    products = keras.ops.take(products, left * (HOTNESS + 1) + right, axis=1)
    top = keras.layers.Concatenate()([bottom, products])
    for units in (128, 64):
        top = keras.layers.Dense(units, "relu")(top)
    return keras.Model([rows, features], keras.layers.Dense(1)(top))


def make_model(storage=None):
    """Returns the model, its layer with the table, and its head."""
    import keras

    import keras_sparse

    ids = keras.Input((HOTNESS,), dtype="int64")
    features = keras.Input((NUM_FEATURES,))
    layer = keras_sparse.layers.Embedding(None, DIM, storage=storage)
    head = make_head(DIM)
    model = keras.Model({"ids": ids, "features": features}, head([layer(ids), features]))
    return model, layer, head


def make_steps(model, layer, head, batch_size):
    """Returns the step of each way, a function of an iterator."""
    import keras
    import tensorflow as tf

    import keras_sparse

    optimizer = keras_sparse.optimizers.Adagrad(0.01)
    dense, variables = head.trainable_variables, model.trainable_variables
    optimizer.build(variables)
    given = tf.random.stateless_normal((batch_size, HOTNESS, DIM), (1, 2), 0, 0.01)
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def train(iterator):
        inputs, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs))
        optimizer.apply(tape.gradient(loss, variables), variables)

    @tf.function
    def look_up(iterator):
        inputs, _ = next(iterator)
        with tf.GradientTape() as tape:
            rows = layer(inputs["ids"])
        tables = [layer.embeddings]
        optimizer.apply(tape.gradient([rows], tables, output_gradients=[given]), tables)

    @tf.function
    def compute(iterator):
        inputs, labels = next(iterator)
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = loss_of(labels, head([given, inputs["features"]]))
        row_grads, grads = tape.gradient(loss, (given, dense))
        optimizer.apply(grads, dense)
        return row_grads

    return {**dict.fromkeys(MODES, train), ALONE[0]: look_up, ALONE[1]: compute}


def and_wait(step):
    """The same step, which ends when the GPU has done it."""
    import tensorflow as tf

    def step_and_wait(iterator):
        step(iterator)
        tf.test.experimental.sync_devices()

    return step_and_wait


def draw_ids(generator, count, options):
    shape = (count, options.batch_size, HOTNESS)
    return workloads.scramble(workloads.zipf_ranks(generator, options.keys, shape))


def ids_of_batches(options):
    """Returns a function of a number of batches that gives the ids of the next ones."""
    if options.ids is None:
        generator = np.random.default_rng(workloads.SEED)
        return lambda count: draw_ids(generator, count, options)
    order = itertools.cycle(range(len(options.ids)))
    return lambda count: options.ids[list(itertools.islice(order, count))]


def make_batches(ids, options):
    """A dataset of batches that are ready."""
    import tensorflow as tf

    with tf.device("CPU"):  # where a dataset computes
        features, labels = map(tf.constant, workloads.dense_features_and_labels(options))
    batches = tf.data.Dataset.from_tensor_slices(ids)
    return batches.map(lambda ids: ({"ids": ids, "features": features}, labels))


def look_ahead(batches, model, way, options):
    """What a step takes its batches from."""
    from keras_sparse.data import prefetch_lookups

    if way not in MODES[1:]:
        return batches.prefetch(2)
    return prefetch_lookups(batches, model, options.num_threads, options.capacity, way)


def take_turn(step, batches, table, options, traces=False):
    """Returns steps in ms, and what became of the lookups that were staged for them.

    Args:
        traces: Boolean. Whether to print a timeline of some more steps.
    """
    iterator = iter(batches)
    for _ in range(options.warm_steps):
        step(iterator)
    before, times = staged_so_far(table), []
    for _ in range(options.steps):
        start = time.perf_counter()
        step(iterator)
        times.append((time.perf_counter() - start) * 1e3)
    after = staged_so_far(table)
    if traces:
        facts = timeline.record(lambda _: step(iterator), TRACED_STEPS)
        print(timeline.table(facts | {"lookups": []}), flush=True)
    counts = {name: after[name] - before[name] for name in COUNTS}
    most = after["staleness_max"] if counts["staleness_sum"] else 0  # of all turns
    return times, counts | {"staleness_max": most}


def staged_so_far(table):
    """What `stats()["prefetch"]` is made of; `stats()` itself waits for the disk."""
    from keras_sparse import native

    counts = native.staging_stats([table])[0].numpy().tolist()
    return dict(zip(native.STAGING_STATISTICS, counts, strict=True))


def measure(storage_type, share, direct, folder, options):
    """Returns the turns of each way, as `take_turn` gives them."""
    os.environ["KERAS_SPARSE_SSDHASH_DIRECT_IO"] = str(int(direct))
    model, layer, head = make_model(make_storage(storage_type, share, options.keys, folder))
    steps = make_steps(model, layer, head, options.batch_size)
    if options.on_gpu:
        steps = {way: and_wait(step) for way, step in steps.items()}
    import_rows(layer.embeddings, options.keys)
    next_ids = ids_of_batches(options)
    iterator = iter(make_batches(next_ids(options.first_steps), options))
    for _ in range(options.first_steps):
        steps["off"](iterator)
    turns = {way: [] for way in ((*MODES, *ALONE) if "_" in storage_type else MODES)}
    for number in range(options.rounds):
        for way in rotated([*turns], number):
            before = num_promoted(layer)  # waits until all is written
            num_batches = options.warm_steps + options.steps + BATCHES_AHEAD
            batches = make_batches(next_ids(num_batches), options)
            ahead = look_ahead(batches, model, way, options)
            traces = options.on_gpu and way in TRACED
            turns[way].append(take_turn(steps[way], ahead, layer.embeddings, options, traces))
            num_steps = options.warm_steps + options.steps + traces * (1 + TRACED_STEPS)
            turns[way][-1][1]["promoted"] = (num_promoted(layer) - before) / num_steps
            step = statistics.median(turns[way][-1][0])
            print(f"round {number + 1}, {way}: {step:.3g} ms", flush=True)
    return turns


def num_promoted(layer):
    """Rows that the first tier has taken from those below so far."""
    return next(iter(layer.embeddings.stats()["tiers"].values()))["promotions"]


def misses_a_step(ids, num_rows, one_in=1):
    """Returns how many rows a step reads from below a first tier, in the mean.

    Batches come in turn, again and again, every key has its row, and the tier keeps the rows that
    were used last.

    Args:
        ids: int64 array of shape `(num_batches, ...)`.
        num_rows: Integer. Rows in the first tier.
        one_in: Integer. Of so many keys one is followed, for a part of the time.
    """
    from keras_sparse.storage import miss_curve

    followed = [each[each % one_in == 0] for each in ids]
    once, twice = (
        miss_curve(followed * times, verbose=False).misses_per_step(num_rows // one_in)
        for times in (1, 2)
    )
    return (2 * twice - once) * one_in  # those of the second time


def predicted_ms(alone_ms, misses, bus):
    """Returns ms of a step that also moves missed records up to the GPU, and as many down.

    Args:
        alone_ms: Float. A step with all rows on the GPU.
        misses: Float. Rows.
        bus: Pair of floats, GB/s of copies to the GPU and from it.
    """
    return alone_ms + sum(misses * RECORD_BYTES / rate / 1e6 for rate in bus)


def median_of(turns):
    """The median of the times of all turns."""
    return statistics.median(time for times, _ in turns for time in times)


def prediction(case, share, turns, alone, options):
    """Returns text: what the miss curve predicts of a case with tiers, beside what was measured.

    Args:
        share: Float. The first tier's part of the keys.
        turns: The case's turns, by way of lookup.
        alone: Turns with all rows in the first tier, by the way.
    """
    misses = misses_a_step(options.ids, int(options.keys * share), FOLLOWED)
    promoted = statistics.mean(counts["promoted"] for _, counts in turns["off"])
    text = f"{case}: {misses:,.0f} rows a step miss by the curve, {promoted:,.0f} did."
    if not options.on_gpu or not all(options.bus):
        return text
    alone_ms = median_of(alone["off"])
    ms = predicted_ms(alone_ms, misses, options.bus)
    times = {"predicted, of their records up and down": ms}
    times |= {way: median_of(turns[way]) for way in MODES}
    of_alone = (f"{way} {each:.3g} ({each / alone_ms:.2f})" for way, each in times.items())
    return (
        f"{text} A step in ms, and to that with all on the GPU, {alone_ms:.3g}: "
        f"{'; '.join(of_alone)}; the aim is {MOST_ON_GPU}."
    )


def report(case, turns):
    """Markdown: a row a way, its times against the larger of the halves, and what was staged."""
    times = {way: [time for turn, _ in each for time in turn] for way, each in turns.items()}
    medians = {way: statistics.median(each) for way, each in times.items()}
    base = max(medians.get(way, 0) for way in ALONE) or medians["off"]
    beside = "to the larger alone" if ALONE[0] in turns else "to off"
    rows = []
    for way, each in turns.items():
        rounds = " ".join(f"{statistics.median(turn):.3g}" for turn, _ in each)
        cells = [way, f"{medians[way]:.3g}", f"{min(times[way]):.3g}, {len(times[way])}", rounds]
        cells += [f"{statistics.mean(times[way]):.3g}", f"{medians[way] / base:.2f}"]
        staged = [""] * len(STAGED)
        if way in MODES[1:]:
            staged = staged_cells([counts for _, counts in each], len(times[way]))
        rows.append([*cells, *staged])
    head = [case, "step", "fastest, steps", "rounds", "mean", beside, *STAGED]
    return markdown(head, rows)


def staged_cells(counts, num_steps):
    used, missed, waited, staleness = (sum(each[name] for each in counts) for name in COUNTS)
    most = max(each["staleness_max"] for each in counts)
    mean = staleness / max(1, used)
    return [str(used), str(missed), f"{waited / num_steps / 1e6:.3g}", f"{most}, {mean:.2g}"]


def main(arguments=None):
    options = options_of(
        __doc__,
        arguments,
        keys=20_000_000,
        rounds=3,
        steps=60,
        batch_size=2048,
        warm_steps=WARM_STEPS,
        first_steps=240,
        drawn=0,
        num_threads="auto",
        capacity="auto",
        on_gpu=False,
        bus=(0.0, 0.0),
        folder=None,
    )
    has_direct_io = storage_tiers.has_direct_io(options.folder or tempfile.gettempdir())
    texts = [f"{options.keys:,} keys, batches of {options.batch_size:,}. Medians of all steps."]
    generator = np.random.default_rng(workloads.SEED)
    options.ids = draw_ids(generator, options.drawn, options) if options.drawn else None
    cases, found = CASES_ON_GPU if options.on_gpu else CASES, {}
    for name, case in cases.items():
        if case[2] and not has_direct_io:
            continue
        say(f"{name}:")
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found[name] = in_fresh_process(measure, *case, folder, options)
        texts.append(report(name, found[name]))
    *tiered, alone = found
    for name in tiered if options.drawn else ():
        texts.append(prediction(name, cases[name][1], found[name], found[alone], options))
    return show(TITLE, "\n\n".join(texts))


if __name__ == "__main__":
    main()
