import itertools

import numpy as np

from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.byte_sizes import seconds_text
from keras_sparse.utils.text_table import aligned

# Where samples a second grow by less than this part of what the ranks do, more of them are a waste.
_WORTH_IT = 0.5


def scaling_of(plans):
    """Returns what plans for more and more ranks predict: a dict a plan.

    Each rank has a batch of its cost model's `batch_size`, however many there are.

    Args:
        plans: List of `Plan`, of more and more ranks.

    Returns:
        List of dicts with `"ranks"`, `"step_seconds"`, `"rank_bytes"` of the rank with most memory,
        `"network_bytes"` that the rank with most of them sends and receives in a step,
        `"samples_per_second"` of all ranks, and `"of_ideal"`: that, over what as many times the
        samples a second of the first plan would be as there are ranks more.
    """
    found: list = []
    for plan in plans:
        of_a_rank = plan.cost_model.batch_size / plan.step_seconds
        ideal = found[0]["samples_per_second"] / found[0]["ranks"] if found else of_a_rank
        found.append(
            {
                "ranks": plan.num_ranks,
                "step_seconds": plan.step_seconds,
                "rank_bytes": int(plan.rank_bytes.max()),
                "network_bytes": float(_network_bytes(plan).max()),
                "samples_per_second": of_a_rank * plan.num_ranks,
                "of_ideal": of_a_rank / ideal,
            }
        )
    return found


def scaling_text(found):
    """Returns a table of what `scaling_of` does, and where to stop."""
    cells = [("ranks", "predicted step", "most memory", "network a rank", "samples/s", "of ideal")]
    cells += [
        (
            str(each["ranks"]),
            seconds_text(each["step_seconds"]),
            bytes_text(each["rank_bytes"]),
            bytes_text(int(each["network_bytes"])),
            f"{each['samples_per_second']:,.0f}",
            f"{each['of_ideal']:.0%}",
        )
        for each in found
    ]
    return "\n".join([*aligned(cells, "rrrrrr"), "", _advice(found)])


def _advice(found):
    dips = ""
    last = found[0]
    for fewer, more in itertools.pairwise(found):
        growth = more["samples_per_second"] / fewer["samples_per_second"] - 1
        if growth >= _WORTH_IT * (more["ranks"] / fewer["ranks"] - 1):
            last = more
            continue
        dips += (
            f" From {fewer['ranks']} to {more['ranks']} ranks it is {growth:+.0%} samples a second."
        )
    if last is found[-1]:
        return f"It scales to {last['ranks']} ranks.{dips}"
    return f"It stops scaling at {last['ranks']}.{dips}"


def _network_bytes(plan):
    model = plan.cost_model.of_network_alone()
    return np.asarray(model.rank_seconds(plan.tables, plan.placements, plan.num_ranks))
