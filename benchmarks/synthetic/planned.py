"""Plans of a synthetic model for numbers of ranks, without making its tables."""

from benchmarks.synthetic.measure import plan_facts
from benchmarks.synthetic.tables import cost_model
from benchmarks.synthetic.training import num_slots_of
from benchmarks.timing import say
from keras_sparse.amounts import bytes_text
from keras_sparse.amounts import seconds_text
from keras_sparse.distribute import plan_placement


def plan(model, options):
    """Returns the plans by the number of ranks, and for which it there is none, and why."""
    tables = model.specs(num_slots_of(options.optimizer))
    plans, without = {}, {}
    for num_ranks in options.ranks:
        say(f"{model.name}: planning {len(tables)} tables for {num_ranks} ranks")
        try:
            plans[num_ranks] = plan_placement(
                tables,
                num_ranks,
                options.strategy,
                column_slice_threshold=options.column_slice_threshold,
                memory_budget=options.memory_budget,
                cost_model=cost_model(options, num_ranks),
            )
        except ValueError as error:
            without[num_ranks] = str(error)
    return plans, without


def planned(model, options):
    """Returns what is to be told, and the text of it."""
    plans, without = plan(model, options)
    head = [
        "ranks",
        "predicted step",
        "most memory of a rank",
        "mean",
        "kinds",
        "A100s, whole step",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for num_ranks in options.ranks:
        lines.append("| " + " | ".join(cells(num_ranks, plans, model)) + " |")
    lines += [f"\n{num_ranks} ranks: {reason}" for num_ranks, reason in without.items()]
    if len(options.ranks) == 1:
        lines += ["", *(str(each) for each in plans.values())]
    facts = {
        "model": model.name,
        "tables": len(model.tables),
        "table_bytes": 4 * model.num_elements,
        "plans": {n: plan_facts(each) for n, each in plans.items()},
        "without": without,
        "gpu_ms": model.gpu_ms,
    }
    return facts, "\n".join(lines)


def cells(num_ranks, plans, model):
    of_gpus = model.gpu_ms.get(num_ranks)
    of_gpus = f"{of_gpus} ms" if of_gpus else ""
    if num_ranks not in plans:
        return [str(num_ranks), "no plan", "", "", "", of_gpus]
    found = plans[num_ranks]
    kinds = ", ".join(f"{n} {kind}" for kind, n in plan_facts(found)["kinds"].items())
    memory = [bytes_text(int(each)) for each in (found.rank_bytes.max(), found.rank_bytes.mean())]
    return [str(num_ranks), seconds_text(found.step_seconds), *memory, kinds, of_gpus]
