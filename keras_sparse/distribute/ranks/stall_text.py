import re

# What the names of calls say, by how they look: the first that fits.
_MEANINGS = (
    (r"exchange_\d+.*\.(ids|ids_again|rows|samples)$", "the lookup of a batch"),
    (r"exchange_\d+.*\.gradients$", "the gradients of a batch, for tables"),
    (r"optimizer_\d+\.", "a step of `DistributedOptimizer`"),
    (r"agree_on_step", "the first step of `DistributedOptimizer`"),
    (r"average_(metrics|over_ranks)", "`MetricAverage` or `average_metrics`, after the last batch"),
    (r"regularized_parts", "the loss of a batch"),
    (r"StopTogether", "`StopTogether`"),
    (r"plan_\d+", "the building of a layer"),
    (r"broadcast|about|records|export|filter", "copying, saving or loading of tables"),
    (r"save|load|checkpoint|find_base", "saving or loading"),
)


def stall_text(prefix, seconds, of_ranks):
    """Returns what is said of ranks that wait for each other.

    Args:
        prefix: String: `"[rank 3 of 8] "`.
        seconds: Float. How long all have waited.
        of_ranks: List of a dict a rank, whose keys are the names of the calls that it waits in.
    """
    waits = [f"rank {i} in {_shown(calls)}" for i, calls in enumerate(of_ranks)]
    return (
        f"{prefix}This rank ends because all ranks have waited for each other for {seconds:g} s, "
        "in different calls. All must call `fit`, `evaluate`, `predict`, what saves and what "
        "averages in the same order, with the same model and callbacks and with as many batches: "
        "`keras_sparse.distribute.shard` gives as many, `steps_per_epoch` cuts them off. Received: "
        f"{', '.join(waits)}"
    )


def _shown(calls):
    return " and ".join(f"{_meaning(call)} ('{call}')" for call in sorted(calls))


def _meaning(call):
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, call):
            return meaning
    return "a call"
