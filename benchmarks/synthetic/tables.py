"""The tables of a synthetic model: ours, those of Keras, or none."""

import math

import keras
import tensorflow as tf

import keras_sparse
from benchmarks import workloads
from keras_sparse import native
from keras_sparse.distribute import CostModel
from keras_sparse.layers import DistributedEmbedding

CHUNK_BYTES = 64 << 20
# A table that is a smaller part of the model than this stays in memory whole.
SMALL_PART = 1 / 1000
ENTRY_BYTES = 12  # beside a row and its slots in a file
LEAST_TIER = 64 << 20
BANDWIDTHS = (2e10, 2.5e9)  # of memory and network, for plans: bytes a second of a rank


class OurTables:
    """All tables in one `DistributedEmbedding`.

    Args:
        model: `SyntheticModel`.
        options: Those of the command.
        num_slots: Integer, of the optimizer.

    Attributes:
        variables: What an optimizer trains.
        watched: Tensors whose gradient is made and dropped.
        whole_inputs: Of `draw_batch`.
    """

    watched: tuple = ()

    def __init__(self, model, options, num_slots):
        self._model = model
        self.layer = DistributedEmbedding(
            [
                keras_sparse.layers.Embedding(
                    name=f"table_{i}",
                    output_dim=table.width,
                    combiner="sum",
                    seed=workloads.SEED + i,
                    **place_of(table, model, options, num_slots),
                )
                for i, table in enumerate(model.tables)
            ],
            strategy=options.strategy,
            column_slice_threshold=options.column_slice_threshold,
            dp_input=options.dp_input,
            input_table_map=[table for table, _ in model.inputs],
            num_slots=num_slots,
            hotness=[hotness for _, hotness in model.inputs],
            cost_model=CostModel(*BANDWIDTHS, options.batch_size // keras_sparse.distribute.size()),
            output_mode="concat",
        )
        self.layer.build()
        self.variables = self.layer.tables
        self.whole_inputs = None if options.dp_input else self.layer.own_inputs

    def lookup(self, inputs):
        return self.layer(inputs)

    def make_rows(self):
        """Gives every row of this rank its place, with the value that it has at first."""
        for i, variable in sorted(self.layer.own_tables.by_table.items()):
            keys = keys_of(self._model.tables[i], variable)
            chunk = max(1, CHUNK_BYTES // (4 * variable.record_floats))
            # From the last one on: those used the most then stay in the first tier.
            for first in reversed(range(0, len(keys), chunk)):
                some = keys[first : first + chunk]
                some = tf.range(some.start, some.stop, some.step, dtype=tf.int64)
                rows = keras_sparse.ops.lookup([variable], [some])[0]
                native.import_rows([variable], [some], [rows])

    def bytes(self):
        """What the tables say that they take of this rank's memory, and of its disk."""
        stats = [variable.stats() for variable in self.layer.own_tables.by_table.values()]
        tiers = [tier for each in stats for tier in list(each["tiers"].values())[1:]]
        below = sum(tier["bytes"] for tier in tiers)
        memory = sum(each["bytes"] for each in stats) - below
        return memory + sum(tier["memory_bytes"] for tier in tiers), below


def last_tier_bytes(table, num_slots):
    """Returns the size of the disk of a table on each rank; a fifth is room for compaction."""
    rows = math.ceil(table.rows / keras_sparse.distribute.size())
    return rows * (4 * table.width * (1 + num_slots) + ENTRY_BYTES) * 6 // 5 + LEAST_TIER


def place_of(table, model, options, num_slots):
    """Returns `input_dim` and `storage`: lower tiers are for tables that take any key."""
    if not is_tiered(table, model, options):
        first = keras_sparse.StorageOption(options.storage.split("_")[0])
        return {"input_dim": table.rows, "storage": first}
    part = table.rows * table.width / model.num_elements
    sizes = [math.ceil(part * options.first_tier), last_tier_bytes(table, num_slots)]
    storage = keras_sparse.StorageOption(options.storage, options.storage_path, sizes)
    return {"input_dim": None, "storage": storage}


def is_tiered(table, model, options):
    part = table.rows * table.width / model.num_elements
    return "_" in options.storage and part >= SMALL_PART


def keys_of(table, variable):
    """Returns the ids of all rows that a variable has, a `range`, as the variable counts them."""
    if not variable.is_dynamic:
        return range(variable.input_dim)
    part = variable.part
    return range(table.rows) if part is None else range(part.shard, table.rows, part.num_shards)


class KerasTables:
    """A `keras.layers.Embedding` a table, all of them on every rank."""

    whole_inputs = None
    watched: tuple = ()

    def __init__(self, model, options, num_slots):
        self._model = model
        self.layers = [
            keras.layers.Embedding(
                table.rows,
                table.width,
                embeddings_initializer=keras.initializers.RandomUniform(
                    -0.05, 0.05, seed=workloads.SEED + i
                ),
                name=f"table_{i}",
            )
            for i, table in enumerate(model.tables)
        ]
        for layer in self.layers:
            layer.build()
        self.variables = [layer.embeddings for layer in self.layers]
        self._bytes = model.num_elements * 4 * (1 + num_slots)

    def lookup(self, inputs):
        pooled = [
            tf.reduce_sum(self.layers[table](ids), axis=1)
            for (table, _), ids in zip(self._model.inputs, inputs, strict=True)
        ]
        return tf.concat(pooled, axis=1)

    def make_rows(self):
        """They are there."""

    def bytes(self):
        return self._bytes, 0


class GivenRows:
    """No tables: the rows of all inputs are there, and their gradient is made."""

    whole_inputs: tuple = ()
    variables: tuple = ()

    def __init__(self, model, options, num_slots):
        samples = options.batch_size // keras_sparse.distribute.size()
        shape = (samples, model.concat_width)
        self.watched = [0.05 * tf.random.stateless_uniform(shape, (1, 2), -1, 1)]

    def lookup(self, inputs):
        return self.watched[0]

    def make_rows(self):
        """There are none."""

    def bytes(self):
        return 0, 0


TABLES = {"ours": OurTables, "keras": KerasTables, "dense": GivenRows}
