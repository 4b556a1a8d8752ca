"""The pictures of the pages, each a function that returns a Drawing."""

import json
import math
import pathlib
import re

from svg import Drawing

# Recorded by `python examples/prefetch_timeline.py --direct --json FILE` on two cores: spans in ms.
_TIMELINE = pathlib.Path(__file__).with_name("prefetch_timeline.json")
_RESULTS = pathlib.Path(__file__).parents[2] / "docs/benchmarks/results.md"


def overview():
    """What the package adds to a Keras model, and where rows are."""
    drawing = Drawing(880, 440, "Ids of a batch go through keras_sparse into a Keras model")
    drawing.box(16, 20, 170, 84, "a batch", "any 64-bit ids:", "dense, ragged, sparse")
    drawing.box(
        300, 20, 270, 84, "keras_sparse.layers", "Embedding, GroupEmbedding,",
        "DistributedEmbedding", kind="accent",
    )  # fmt: skip
    drawing.box(694, 20, 170, 84, "your Keras model", "dense layers, loss,", "compile, fit, save")
    drawing.arrow((186, 58), (296, 58))
    drawing.text(241, 50, "ids", "small", anchor="middle")
    drawing.arrow((570, 48), (690, 48))
    drawing.text(632, 40, "rows, one tensor", "small", anchor="middle")
    drawing.arrow((694, 82), (574, 82))
    drawing.text(634, 98, "gradient", "small", anchor="middle")
    drawing.arrow((400, 168), (400, 108))
    drawing.text(392, 142, "rows of the batch", "small", anchor="end")
    drawing.arrow((480, 104), (480, 164))
    drawing.text(488, 142, "updates of these rows", "small")
    for x, name in ((176, "rank 0"), (454, "rank 1, 2, ...")):
        drawing.box(x, 168, 250, 232, name, kind="group")
        for place, (width, label, kind) in enumerate(
            (
                (110, "GPU memory", "gpu"),
                (136, "memory", "memory"),
                (176, "persistent memory", "pmem"),
                (222, "SSD: cold rows", "ssd"),
            )
        ):
            y = 202 + 49 * place
            drawing.box(x + 125 - width / 2, y, width, 34, label, kind=kind, small=True)
            if place:
                drawing.arrow((x + 111, y - 14), (x + 111, y - 1))
                drawing.arrow((x + 139, y), (x + 139, y - 13))
    drawing.arrow((426, 262), (450, 262))
    drawing.arrow((454, 278), (430, 278))
    drawing.box(12, 206, 140, 78, "prefetch", "reads the rows of", "the next batches")
    drawing.arrow((152, 244), (172, 244))
    drawing.box(728, 206, 140, 78, "checkpoints", "write rows that", "have changed")
    drawing.arrow((704, 244), (724, 244))
    drawing.text(
        440, 426, "Ranks exchange ids, rows and gradients by Horovod. One process is one rank.",
        "small", "soft", anchor="middle",
    )  # fmt: skip
    return drawing


def speed():
    """Milliseconds of a training step, from the results page."""
    drawing = Drawing(880, 292, "Training step with Adagrad in ms, beside other systems")
    panels = (
        ("W1", "26 tables of 400,000 x 32"),
        ("W2", "5,000,000 x 64, 1 to 20 ids"),
        ("W3", "any 64-bit keys, x 64"),
    )
    rows = (
        ("keras_sparse", r"keras_sparse(, 26 layers)?", "memory"),
        ("FBGEMM on CPU", r"FBGEMM TBE(, hashed)?", "muted"),
        ("TensorFlow by hand", r"TensorFlow by hand(, hashed)?", "muted"),
        ("torch, sparse", r"torch sparse(, hashed)?", "muted"),
        ("keras.layers.Embedding", r"keras\.layers\.Embedding(, hashed)?", "warm"),
    )
    drawing.text(16, 30, "Training step with Adagrad, ms", "bold")
    drawing.text(16, 50, "batch of 8192, two cores; shorter is faster", "small", "soft")
    for place, (workload, label) in enumerate(panels):
        x = 186 + 232 * place
        drawing.text(x, 84, label, "small", "soft")
        times = [_adagrad_ms(workload, pattern) for _, pattern, _ in rows]
        for row, ((name, _, kind), time) in enumerate(zip(rows, times, strict=True)):
            y = 98 + 37 * row
            if not place:
                drawing.text(176, y + 17, name, "small", anchor="end")
            width = 170 * time / max(times)
            drawing.bar(x, y, width, 24, kind)
            drawing.text(x + width + 7, y + 17, f"{time:g}", "small")
    return drawing


def _adagrad_ms(workload, pattern):
    section = _RESULTS.read_text().partition(f"### {workload}:")[2]
    header, *lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    column = header.split(" | ").index("adagrad")
    row = next(line for line in lines if re.fullmatch(pattern, line.split(" | ")[0]))
    return float(row.split(" | ")[column])


def tiers():
    """The way of a row through the tiers of a table."""
    drawing = Drawing(880, 420, "A row's way through the tiers of a table")
    boxes = (
        (220, "First tier", "memory, or GPU memory", "memory"),
        (300, "Lower tier", "SSD, persistent memory, or memory below a GPU", "pmem"),
        (380, "Last tier", "SSD", "ssd"),
    )
    drawing.box(200, 20, 150, 48, "lookup", "reads, moves nothing")
    drawing.box(530, 20, 150, 48, "update", "writes a gradient")
    for place, (width, name, what, kind) in enumerate(boxes):
        y = 140 + 100 * place
        drawing.box(440 - width, y, 2 * width, 62, name, what, kind=kind)
    drawing.arrow((300, 136), (300, 72))
    drawing.text(309, 108, "hot rows", "small")
    drawing.arrow((100, 336), (100, 44), (196, 44))
    drawing.arrow((100, 271), (136, 271), head=False)
    drawing.text(92, 150, "cold rows,", "small", anchor="end")
    drawing.text(92, 168, "read in place", "small", anchor="end")
    drawing.arrow((605, 72), (605, 136))
    drawing.text(614, 108, "rows of the batch", "small")
    for y in (202, 302):
        drawing.arrow((350, y + 38), (350, y + 4))
        drawing.arrow((530, y), (530, y + 34))
    drawing.text(342, 224, "promote: next gradient", "small", anchor="end")
    drawing.text(538, 224, "demote: tier is full, coldest rows first", "small")
    drawing.text(538, 324, "demote: tier is full, oldest rows first", "small")
    return drawing


def exchange():
    """What two ranks send each other in a training step."""
    drawing = Drawing(880, 470, "The exchanges of two ranks in a training step")
    left, right = (40, 560)
    stages = (
        ("its samples", "half of the batch"),
        ("looks up", "the rows that it owns"),
        ("forward, backward", "of its samples"),
        ("updates", "the rows that it owns"),
    )
    for x, name in ((left, "rank 0"), (right, "rank 1")):
        drawing.box(x - 20, 16, 320, 438, name, kind="group")
        for place, lines in enumerate(stages):
            drawing.box(x + 40, 56 + 100 * place, 200, 54, *lines, kind="accent")
            if place:
                drawing.arrow((x + 140, 10 + 100 * place), (x + 140, 52 + 100 * place))
    sent = ("1  ids, each once", "2  rows, or sums of bags", "3  gradients of rows")
    for place, label in enumerate(sent):
        y = 136 + 100 * place
        drawing.text(450, y - 8, label, "small", anchor="middle")
        drawing.arrow((left + 150, y), (right + 132, y))
        drawing.arrow((right + 132, y + 8), (left + 150, y + 8))
    drawing.text(450, 420, "dense variables and", "small", anchor="middle")
    drawing.text(450, 437, "replicated tables: averaged", "small", anchor="middle")
    drawing.arrow((left + 240, 400), (right + 36, 400))
    drawing.arrow((right + 40, 392), (left + 244, 392))
    return drawing


def missed_steps():
    """A row of a table that has a gradient in few steps, under Adam and under LazyAdam."""
    drawing = Drawing(880, 330, "A row without gradients: Adam moves it on, LazyAdam does not")
    steps, with_gradient = 120, (0, 1, 2, 30, 31, 60, 61, 62)
    lazy, dense = _adam_rows(steps, with_gradient)
    top, bottom, left, right = 50, 270, 60, 860
    low, high = min(lazy + dense), max(lazy + dense)

    def at(step, value):
        x = left + (right - left) * step / steps
        return x, bottom - (bottom - top) * (value - low) / (high - low)

    drawing.text(left, 30, "One element of a row that has a gradient in 8 of 120 steps", "bold")
    for step in with_gradient:
        x, _ = at(step + 1, low)
        drawing.bar(x - 1, bottom + 8, 2, 10, "muted")
    drawing.text(left, bottom + 40, "ticks: steps with a gradient", "small", "soft")
    drawing.curve([at(*each) for each in enumerate(dense)], "teal")
    drawing.curve([at(*each) for each in enumerate(lazy)], "coral")
    drawing.text(
        at(24, 0)[0], at(24, dense[24])[1] + 24, "Adam, as in Keras", "small", anchor="end"
    )
    drawing.text(right, at(steps, lazy[-1])[1] - 10, "LazyAdam", "small", anchor="end")
    return drawing


def _adam_rows(steps, with_gradient, rate=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    """The values of one element after each step, by LazyAdam and by Adam."""
    courses = []
    for lazy in (True, False):
        value, momentum, velocity, course = 0.0, 0.0, 0.0, [0.0]
        for step in range(steps):
            gradient = float(step in with_gradient)
            if gradient or not lazy:
                momentum += (1 - beta_1) * (gradient - momentum)
                velocity += (1 - beta_2) * (gradient**2 - velocity)
                power = step + 1
                alpha = rate * math.sqrt(1 - beta_2**power) / (1 - beta_1**power)
                value -= alpha * momentum / (math.sqrt(velocity) + epsilon)
            course.append(value)
        courses.append(course)
    return courses


def checkpoint_folder():
    """The checkpoints and deltas that `Checkpoint` saves, links and removes."""
    drawing = Drawing(880, 290, "The life of a folder of checkpoints")
    drawing.text(24, 34, "Checkpoint(every_steps=400, delta_every=100, keep=2)", "bold")
    drawing.text(
        24, 54, "step 800; grey: removed once the third checkpoint is complete", "small", "soft"
    )
    drawing.text(24, 274, "step", "small", "soft")
    drawing.arrow((62, 252), (868, 252))
    last = 0
    for place in range(8):
        x, is_kept = 62 + 100 * place, place >= 3
        drawing.text(x + 47, 274, f"{100 * (place + 1)}", "small", "soft", anchor="middle")
        if place in (0, 3, 7):
            kind = "memory" if is_kept else "muted"
            drawing.box(x, 116, 94, 122, "checkpoint", "all rows", kind=kind, small=True)
            if place:
                drawing.arrow((last + 47, 112), (last + 47, 94), (x + 47, 94), (x + 47, 112))
                where = (last + x) / 2 + 47
                drawing.text(where, 86, "links unchanged rows", "small", anchor="middle")
            last = x
        else:
            lines = ("delta", "changed rows")
            kind = "pmem" if is_kept else "muted"
            drawing.box(x, 190, 94, 48, *lines, kind=kind, small=True)
    return drawing


def prefetch_timeline():
    """When the ops of eight steps ran, without prefetch and in both modes."""
    drawing = Drawing(880, 446, "Eight training steps without prefetch, with exact and with stale")
    titles = {"off": "without prefetch", "exact": 'mode="exact"', "stale": 'mode="stale"'}
    kinds = {"stage": "memory", "lookup": "warm", "dense": "muted", "update": "ssd"}
    left, scale = 90, 770 / 1400  # px a ms
    for place, (way, rows) in enumerate(json.loads(_TIMELINE.read_text()).items()):
        top = 34 + 136 * place
        end = max(end for _, end in rows["update"])
        drawing.text(16, top, f"{titles[way]}: {end:.0f} ms", "bold")
        for line, (row, spans) in enumerate(rows.items()):
            y = top + 12 + 22 * line
            drawing.text(left - 10, y + 14, row, "small", anchor="end")
            for first, last in spans:
                drawing.bar(left + scale * first, y, scale * (last - first), 18, kinds[row])
    for ms in range(0, 1401, 200):
        drawing.text(left + scale * ms, 436, f"{ms}", "small", "soft", anchor="middle")
    drawing.text(left - 10, 436, "ms", "small", "soft", anchor="end")
    return drawing


ALL = (
    overview,
    speed,
    tiers,
    exchange,
    missed_steps,
    checkpoint_folder,
    prefetch_timeline,
)
