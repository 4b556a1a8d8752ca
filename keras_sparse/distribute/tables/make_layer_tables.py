import dataclasses
import itertools
import json

from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.tables.layer_tables import LayerTables
from keras_sparse.distribute.tables.layer_tables import part_of_rank
from keras_sparse.storage.storage_option import StorageOption
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.initial_rows import resolve_seed
from keras_sparse.tables.initial_rows import with_seed
from keras_sparse.tables.rows_regularizer import rows_regularizer
from keras_sparse.tables.table_config import TableConfig

# Layers are built in the same order on all ranks, so that these numbers are the same too.
_numbers = itertools.count()


def make_layer_tables(plan, layers, dp_input=True, wire_dtype="float32"):
    """Makes this rank's part of the tables of a plan. All ranks do so together.

    Args:
        plan: `Plan`.
        layers: List of unbuilt `Embedding`, one a table: its options.
        dp_input, wire_dtype: As for `LayerTables`. Default to `True` and `"float32"`.

    Returns:
        `LayerTables`.

    Raises:
        NotImplementedError: On all ranks, if tables of one are to be in GPU memory and it has none.
        RuntimeError: On all ranks, if they did not make the same plan.
    """
    seeds, are_on_gpu = _agree(plan, layers)
    by_table = {
        table: _make_variable(plan, table, layers[table], seeds[table])
        for table in sorted(plan.tables_of(rank()))
    }
    return LayerTables(plan, layers, by_table, are_on_gpu, dp_input, wire_dtype)


def _agree(plan, layers):
    """Returns of each table the seed of rank 0, as ranks without one draw different ones, and
    whether it is in GPU memory on all ranks.
    """
    seeds = [resolve_seed(each.embeddings_initializer, each.seed) for each in layers]
    are_on_gpu = [(each.storage or StorageOption()).is_on_gpu for each in layers]
    if plan.num_ranks == 1:
        return seeds, are_on_gpu
    own = plan.to_json(), _lack_of_gpu(layers), seeds, are_on_gpu
    told = gather_objects(own, f"keras_sparse.plan_{next(_numbers)}")
    for other, (text, lack, *_) in enumerate(told):
        if lack is not None:
            prefix = f"[rank {rank()} of {plan.num_ranks}]"
            raise NotImplementedError(f"{prefix} {lack} on rank {other}")
        if text != told[0][0]:
            raise RuntimeError(
                f"[rank {rank()} of {plan.num_ranks}] All ranks must make a DistributedEmbedding "
                "with the same arguments and names. Keras names layers by how many a process has "
                "made: give those in `embeddings` a `name` where ranks make others too. Received: "
                f"{_first_difference(told[0][0], text)} on rank {other}"
            )
    _, _, seeds, _ = told[0]
    return seeds, [all(each) for each in zip(*(of_rank[-1] for of_rank in told), strict=True)]


def _lack_of_gpu(layers):
    storages = [each.storage for each in layers if each.storage and each.storage.is_on_gpu]
    return native.lack_of_gpu(storages[0].storage_type) if storages else None


def _first_difference(plan, other):
    """Returns how the first table differs on which two plans in JSON do not agree, or the plans."""
    plan, other = json.loads(plan), json.loads(other)
    for of_table, others in zip(plan["tables"], other["tables"], strict=False):
        for key, value in of_table.items():
            if others[key] != value:
                where = f" of table '{of_table['name']}'"
                return f"{key}={value!r}{where} on rank 0, {key}={others[key]!r}"
    if len(plan["tables"]) != len(other["tables"]):
        return f"{len(plan['tables'])} tables on rank 0, {len(other['tables'])}"
    # From the last one, as the first ones follow from the others.
    key = next(key for key in reversed(plan) if other[key] != plan[key])
    return f"{key}={plan[key]!r} on rank 0, {key}={other[key]!r}"


def _make_variable(plan, table, layer, seed):
    config = dataclasses.replace(
        TableConfig.of_layer(layer),
        initializer=with_seed(layer.embeddings_initializer, seed),
        seed=seed,
        trainable=layer.trainable,
        name=plan.tables[table].name,
    )
    num_ranks = 1
    # A copy is a table like any other: the optimizer alone keeps copies the same on all ranks.
    if plan.num_ranks > 1 and plan.placements[table].kind != "data_parallel":
        num_ranks = plan.num_ranks
        config = config.of_part(part_of_rank(plan, table, layer, rank()))
    variable = EmbeddingVariable(**vars(config))
    variable.regularizer = rows_regularizer(layer.embeddings_regularizer, num_ranks)
    return variable
