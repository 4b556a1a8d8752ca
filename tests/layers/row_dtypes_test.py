"""Layers whose tables store rows and slots in 16 bits."""

import copy

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import checkpoint_cases
import keras_sparse
import layer_cases
from checkpoint_cases import STORAGE_TYPES
from keras_sparse import native
from keras_sparse import optimizers
from keras_sparse.data import prefetch_lookups
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from pairwise import each_pair

ROWS, WIDTH, BATCH = 1600, 5, 256
RANDOM = np.random.default_rng(0)
# The first steps touch all ids, so that small first tiers demote rows; the later ones repeat some.
IDS = np.concatenate([RANDOM.permutation(ROWS), RANDOM.zipf(1.2, 960) % ROWS]).reshape(-1, 2)
TARGETS = RANDOM.normal(size=(len(IDS), 1)).astype("float32")
SOME = np.arange(0, ROWS, 7)
NUMPY = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
DTYPES = [
    {"row_dtype": "bfloat16", "slot_dtype": "bfloat16"},
    {"row_dtype": "float16", "slot_dtype": "float32"},
    {"row_dtype": "bfloat16", "slot_dtype": "float32", "rounding": "nearest"},
    {"row_dtype": "float16", "slot_dtype": "bfloat16"},
    {"row_dtype": "float32", "slot_dtype": "bfloat16"},
]
OPTIMIZERS = {
    "adagrad": lambda **options: optimizers.Adagrad(0.1, **options),
    "adam": lambda **options: optimizers.Adam(0.01, **options),
    "momentum": lambda **options: optimizers.SGD(0.01, momentum=0.9, **options),
    "row_wise": lambda **options: optimizers.RowWiseAdagrad(0.1, **options),
    "ftrl": lambda **options: optimizers.Ftrl(0.1, **options),
}
ADMISSIONS = {
    "all": lambda: None,
    "counter": lambda: keras_sparse.CounterFilter(2),
    "probability": lambda: keras_sparse.ProbabilityFilter(0.5, seed=3),
}
EVICTIONS = {
    "none": lambda: None,
    "steps": lambda: keras_sparse.GlobalStepEvict(4, at_save=False),
    "norm": lambda: keras_sparse.L2WeightEvict(0.05, at_save=False),
}


class Run:
    """A model of one table, and what each of its stages leaves in the table."""

    def __init__(self, optimizer, accumulation, input_dim=None, **options):
        self.layer = Embedding(input_dim, WIDTH, "sum", seed=1, **options)
        kernel = keras.initializers.Constant(0.5)
        ids = keras.Input((2,), dtype="int64")
        outputs = keras.layers.Dense(1, kernel_initializer=kernel)(self.layer(ids))
        self.model = keras.Model(ids, outputs)
        steps = {"gradient_accumulation_steps": accumulation}
        self.model.compile(OPTIMIZERS[optimizer](**steps), loss="mse", run_eagerly=True)
        self.model.optimizer.build(self.model.trainable_variables)

    def fit(self, first, last, prefetch):
        data = tf.data.Dataset.from_tensor_slices((IDS[first:last], TARGETS[first:last]))
        data = data.batch(BATCH)
        if prefetch:
            data = prefetch_lookups(data, self.model, num_threads=2, capacity=3)
        self.model.fit(data, verbose=0, shuffle=False)

    def words(self):
        """The stored bytes of every row by its key."""
        found, cursor = {}, 0
        while cursor >= 0:
            table = self.layer.embeddings.table
            keys, records, cursor = native.export_raw(table, cursor, 1000)
            found |= zip(keys.numpy().tolist(), map(bytes, records.numpy()), strict=True)
            cursor = int(cursor)
        return found

    def stages(self, prefetch, is_dynamic):
        """Trains, reads and changes rows by key; yields the table's bytes after each of these."""
        self.fit(0, len(IDS) * 2 // 3, prefetch)
        yield (before := self.words())
        self.model.evaluate(IDS[:BATCH], TARGETS[:BATCH], verbose=0)
        self.model.predict(IDS[:BATCH], verbose=0)
        found = self.layer.find(SOME)
        assert self.words() == before
        yield found.exist.tolist(), found.rows.tobytes()
        yield {name: values.tobytes() for name, values in found.slots.items()}
        self.layer.assign(SOME[::2], found.rows[1:3].mean(0) * np.ones((len(SOME[::2]), 1)))
        if is_dynamic:
            self.layer.erase(SOME[5:9])
            if self.layer.eviction is not None:
                self.layer.evict()
        yield self.words()
        chunks = list(self.layer.export(700))
        for keys, records in chunks:
            self.layer.embeddings.import_(keys, records)
        self.fit(len(IDS) * 2 // 3, len(IDS), prefetch)
        yield self.words()


@each_pair(
    place=["static", *STORAGE_TYPES],
    optimizer=[*OPTIMIZERS],
    dtypes=DTYPES,
    admission=[*ADMISSIONS],
    eviction=[*EVICTIONS],
    prefetch=[True, False],
    accumulation=[None, 2],
)
def test_all_tables_of_the_same_dtypes_are_alike_bit_for_bit(
    place, optimizer, dtypes, admission, eviction, prefetch, accumulation, tmp_path
):
    is_static = place == "static"
    policies = {} if is_static else {
        "admission": ADMISSIONS[admission](), "eviction": EVICTIONS[eviction](),
    }  # fmt: skip
    plain = Run(optimizer, accumulation, **dtypes, **policies)
    tiers = None if is_static else checkpoint_cases.storage(place, tmp_path)
    input_dim = ROWS if is_static else None
    run = Run(optimizer, accumulation, input_dim, storage=tiers, **dtypes, **policies)
    stages = run.stages(prefetch, not is_static), plain.stages(False, not is_static)
    for number, (found, expected) in enumerate(zip(*stages, strict=True)):
        assert found == expected, number
    if tiers is not None and admission == "all":
        assert run.layer.stats()["tiers"][place.split("_")[0]]["demotions"] > 0


@pytest.mark.parametrize("combiner", [None, "sum"])
@pytest.mark.parametrize(
    ("policy", "row_dtype"),
    [
        ("mixed_bfloat16", "bfloat16"),
        ("mixed_float16", "float16"),
        ("float32", "bfloat16"),
        ("mixed_bfloat16", "float16"),
        ("mixed_bfloat16", "float32"),
    ],
)
def test_outputs_are_the_rows_in_the_compute_dtype(policy, row_dtype, combiner):
    layer = Embedding(None, WIDTH, combiner, row_dtype=row_dtype, dtype=policy)
    layer.build()
    rows = RANDOM.normal(size=(7, WIDTH)).astype("float32")
    layer.assign(np.arange(7), rows)
    stored = layer.find(np.arange(7)).rows
    np.testing.assert_array_equal(stored, rows.astype(NUMPY[row_dtype]).astype(np.float32))
    ids = tf.range(7, dtype=tf.int64)
    outputs = layer(ids if combiner is None else ids[:, tf.newaxis])
    assert outputs.dtype == layer.compute_dtype
    np.testing.assert_array_equal(outputs.numpy(), stored.astype(NUMPY[layer.compute_dtype]))


DEFAULTS = {"row_dtype": "float32", "slot_dtype": "float32", "rounding": "stochastic"}
ODD = {"row_dtype": "float16", "slot_dtype": "bfloat16", "rounding": "nearest"}


def all2all(layer, **options):
    sizes = {"max_vocabulary_size_per_gpu": 64, "embedding_vec_size": WIDTH, "slot_num": 2}
    return layer(**sizes, **options)


@pytest.mark.parametrize(
    "layer",
    [
        Embedding(9, WIDTH, **ODD),
        GroupEmbedding([Embedding(9, WIDTH, **ODD), Embedding(None, 4)]),
        DistributedEmbedding([Embedding(9, WIDTH, **ODD), Embedding(None, 4)]),
        all2all(All2AllDenseEmbedding, nnz_per_slot=1, **ODD),
        all2all(All2AllSparseEmbedding, combiner="sum", max_nnz=1, **ODD),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_config_has_the_dtypes_of_each_table(layer):
    config = layer.get_config()
    other = type(layer).from_config(config)
    assert other.get_config() == config
    for each in (layer, other):
        each.build()
        tables = getattr(each, "tables", None) or each.trainable_variables
        found = [{name: getattr(table, name) for name in ODD} for table in tables]
        assert found[0] == ODD
        assert found[1:] == [DEFAULTS] * (len(found) - 1)


def test_a_plan_counts_the_dtypes_of_each_table():
    layers = [Embedding(9, WIDTH, **ODD), Embedding(9, WIDTH)]
    plan = DistributedEmbedding(layers, num_slots=1).plan
    assert [table.bytes_of(9, WIDTH) for table in plan.tables] == [9 * (12 + 12), 9 * (20 + 20)]


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("row_dtype", "int8", r"\('float32', 'bfloat16', 'float16'\)"),
        ("row_dtype", None, r"\('float32', 'bfloat16', 'float16'\)"),
        ("slot_dtype", "float16", r"\('float32', 'bfloat16'\)"),
        ("rounding", "down", r"\('stochastic', 'nearest'\)"),
    ],
)
@pytest.mark.parametrize("make", [Embedding, keras_sparse.EmbeddingVariable])
def test_another_value_is_refused(make, option, value, known):
    words = f"`{option}` must be one of {known}. Received: {option}={value!r}"
    with pytest.raises((ValueError, TypeError), match=words):
        make(9, WIDTH, **{option: value})


@pytest.mark.parametrize("input_dim", [ROWS, None])
def test_copies_have_the_dtypes_and_rows(input_dim):
    run = Run("adagrad", None, input_dim, **DTYPES[0])
    run.fit(0, BATCH, False)
    table = copy.deepcopy(run.layer.embeddings)
    assert (table.row_dtype, table.slot_dtype) == ("bfloat16", "bfloat16")
    keys = np.unique(IDS[:BATCH])
    np.testing.assert_array_equal(table.find(keys).rows, run.layer.find(keys).rows)
    cloned = keras.models.clone_model(run.model).layers[1]
    assert {name: getattr(cloned, name) for name in DTYPES[0]} == DTYPES[0]
    assert cloned.embeddings.table.record_words == 6  # 10 bytes each, of row and slot


@pytest.mark.parametrize("input_dim", [ROWS, None])
def test_an_exported_model_answers_with_the_same_bits(input_dim, tmp_path):
    run = Run("adagrad", None, input_dim, **DTYPES[0])
    run.fit(0, BATCH, False)
    run.model.export(tmp_path / "served", verbose=False)
    ids = IDS[: BATCH // 2]
    served = layer_cases.served(tmp_path / "served", ids)
    np.testing.assert_allclose(served, run.model.predict(ids, verbose=0), rtol=1e-6)
    layer = keras.layers.TFSMLayer(tmp_path / "served", call_endpoint="serve")
    np.testing.assert_array_equal(layer(tf.constant(ids)), served)
    to_keras = keras_sparse.saving.to_keras(run.model) if input_dim else None
    if to_keras is not None:
        np.testing.assert_allclose(to_keras.predict(ids, verbose=0), served, rtol=1e-5)


@pytest.mark.parametrize("input_dim", [None, 3])
def test_float16_rows_refuse_numbers_that_would_be_infinity(input_dim):
    layer = Embedding(input_dim, 2, row_dtype="float16", name="prices")
    layer.build((None,))
    layer.assign([1], [[65_504, -65_519]])
    with pytest.raises(ValueError, match=r"within 65,504 .* Received: -70000 for table 'prices"):
        layer.assign([1], [[0, -70_000]])
    np.testing.assert_array_equal(layer.find([1]).rows, [[65_504, -65_504]])
    if input_dim is not None:
        with pytest.raises(ValueError, match="`value` must be within 65,504"):
            layer.set_weights([np.full((3, 2), 65_520)])
    layer.assign([1], [[np.inf, 0]])
    np.testing.assert_array_equal(layer.find([1]).rows, [[np.inf, 0]])
