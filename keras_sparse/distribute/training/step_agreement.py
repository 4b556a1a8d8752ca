import collections

import tensorflow as tf

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.optimizers.multi_optimizer import MultiOptimizer
from keras_sparse.optimizers.support.optimizer_choice import refuse_unmatched
from keras_sparse.optimizers.support.step_count import optimizers_in
from keras_sparse.tables.embedding_variable import EmbeddingVariable


def agree_on_step(variables, optimizer):
    """Makes sure that all ranks train the same model, and tells them which tables are in parts.

    Every rank must call it, once before its first step.

    Args:
        variables: List of the variables that the optimizer was built on.
        optimizer: `keras.optimizers.Optimizer` that trains them.

    Returns:
        `(tables, has_limit)`, the same on all ranks: for each of `optimizers_in(optimizer)` a tuple
        of strings, the names of the tables of which ranks have parts, and whether one of these has
        a limit of rows.

    Raises:
        ValueError: The ranks have other variables, a key of a `MultiOptimizer` matches none on any
            of them or, where norms are those of whole tables, two tables have the same name.
    """
    optimizers = optimizers_in(optimizer)
    is_multi = isinstance(optimizer, MultiOptimizer)
    places = optimizer.split(variables) if is_multi else [range(len(variables))]
    owners = {i: number for number, of_optimizer in enumerate(places) for i in of_optimizer}
    unmatched = optimizer.unmatched_keys(variables) if is_multi else []
    parts, copies = [], []
    has_limit = False
    for i, variable in enumerate(variables):
        part = getattr(variable, "part", None)
        if part is not None:
            parts.append((owners[i], part.table, part.shard, part.first_column))
            has_limit = has_limit or variable.max_rows is not None
        else:
            is_table = isinstance(variable, EmbeddingVariable)
            copies.append((owners[i], is_table, tuple(variable.shape), str(variable.dtype)))
    with tf.init_scope():
        own = (copies, parts, has_limit, unmatched)
        of_ranks = gather_objects(own, "keras_sparse.agree_on_step")
    for other, (others_copies, *_) in enumerate(of_ranks):
        if others_copies != of_ranks[0][0]:
            raise ValueError(_different_models(other, others_copies, of_ranks[0][0]))
    unmatched_anywhere = set.intersection(*(set(of_rank[3]) for of_rank in of_ranks))
    refuse_unmatched([key for key in unmatched if key in unmatched_anywhere], variables)
    counts = collections.Counter(part for _, of_rank, *_ in of_ranks for part in of_rank)
    clipped = {number for number, each in enumerate(optimizers) if each.clipnorm}
    repeated = sorted(part[1] for part, n in counts.items() if n > 1 and part[0] in clipped)
    if repeated:
        raise ValueError(
            f"[rank {rank()} of {size()}] Tables that are spread over ranks must have different "
            "names where `clipnorm` is set: the norm is that of all parts of a table. Received: "
            f"several tables '{repeated[0]}'"
        )
    tables = [
        tuple(sorted({part[1] for part in counts if part[0] == number}))
        for number in range(len(optimizers))
    ]
    return tables, any(of_rank[2] for of_rank in of_ranks)


def _different_models(other, theirs, ours):
    shown = [
        f"{'table' if is_table else 'variable'} {shape} {dtype}{f' of optimizer {n}' if n else ''}"
        for n, is_table, shape, dtype in [*theirs, *ours]
    ]
    theirs, ours = shown[: len(theirs)], shown[len(theirs) :]
    shared = min(len(theirs), len(ours))
    place = next((i for i in range(shared) if theirs[i] != ours[i]), shared)
    received = [each[place] if place < len(each) else "none" for each in (ours, theirs)]
    return (
        f"[rank {rank()} of {size()}] All ranks must train the same variables, in the same order. "
        f"Received: as variable {place} of those that all ranks have, {received[0]} on rank 0 and "
        f"{received[1]} on rank {other}"
    )
