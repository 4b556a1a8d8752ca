"""Rows in fewer bits on ranks have the bits that they have on one rank, whatever travels."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from checkpoint_cases import load
from checkpoint_cases import save
from keras_sparse.distribute.exchange import exchange_call
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from pairwise import each_pair
from ranked_training import NUM_IDS
from ranked_training import own_part
from ranked_training import packed_on_one_rank
from ranked_training import packed_tables
from ranked_training import PackedOnRanks
from ranked_training import rows_of_table

NUM_STEPS = 4
PLACES = [
    {"strategy": "memory_balanced"},
    {"column_slice_threshold": 40},
    {"row_slice_threshold": 40},
    {"data_parallel_threshold": 10**6},
]


@each_pair(
    options=PLACES,
    optimizer=["Adagrad", "Adam", "LazyAdam"],
    dtypes=[("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("float16", "bfloat16")],
    rounding=["stochastic", "nearest"],
    wire_dtype=["float32", "bfloat16"],
    mode=[None, "exact", "stale"],
)
def test_trains_the_bits_of_one_rank(options, optimizer, dtypes, rounding, wire_dtype, mode):
    # Adam's slots in 16 bits refuse to be rounded to the nearest.
    slot_dtype = dtypes[1] if rounding == "stochastic" else "float32"
    dtypes = {"row_dtype": dtypes[0], "slot_dtype": slot_dtype, "rounding": rounding}
    spread = PackedOnRanks(optimizer, dtypes, mode, wire_dtype=wire_dtype, **options)
    spread.train(0, NUM_STEPS)
    expected, outputs = packed_on_one_rank(optimizer, dtypes, NUM_STEPS)
    # The wire rounds sums and float32 rows. Packed rows, and sums of one of them, fit it.
    rounding = 0 if wire_dtype == "float32" else 2**-8
    for rows, of_one in zip(spread.rows(), expected, strict=True):
        np.testing.assert_allclose(rows, of_one, rtol=rounding if of_one.shape[1] == 4 else 0)
    num_exact = NUM_IDS * (8 + 3)
    found, outputs = spread.outputs(NUM_STEPS - 1), own_part(outputs)
    np.testing.assert_array_equal(found[:, :num_exact], outputs[:, :num_exact])
    np.testing.assert_allclose(found, outputs, atol=1e-6 + rounding * np.abs(outputs).max())


# Without a combiner, rows travel as they are stored unless weights have multiplied them.
@each_pair(
    row_dtype=["bfloat16", "float16"], wire_dtype=["float32", "bfloat16"], threshold=[None, 40]
)
def test_whole_batches_have_the_rows_of_one_rank(row_dtype, wire_dtype, threshold):
    sizes = [(40, 5, None), (30, 8, None), (20, 4, "sum"), (12, 3, None)]
    dtypes = {"row_dtype": row_dtype, "slot_dtype": "bfloat16"}
    layers = [Embedding(*size, seed=i, **dtypes) for i, size in enumerate(sizes)]
    layer = DistributedEmbedding(
        layers, dp_input=False, wire_dtype=wire_dtype, column_slice_threshold=threshold
    )
    alone = [Embedding(*size, seed=i, **dtypes) for i, size in enumerate(sizes)]
    random = np.random.default_rng(1)
    ids = [random.integers(0, rows, (12, 2) if each else (12,)) for rows, _, each in sizes]
    targets = [random.integers(-3, 4, (12, width)) for _, width, _ in sizes]
    optimizers = [keras_sparse.optimizers.LazyAdam(0.01) for _ in range(2)]
    for _ in range(3):
        with tf.GradientTape() as tape:
            rows = layer([ids[i] for i in layer.own_inputs])
            pairs = zip(rows, targets, strict=True)
            loss = sum(tf.reduce_sum(each * own_block(target)) for each, target in pairs)
            loss *= ksd.size()
        variables = layer.trainable_variables
        grads = tape.gradient(loss, variables)
        ksd.DistributedOptimizer(optimizers[0]).apply(grads, variables)
        with tf.GradientTape() as tape:
            expected = [each(of_input) for each, of_input in zip(alone, ids, strict=True)]
            pairs = zip(expected, targets, strict=True)
            loss = sum(tf.reduce_sum(each * target) for each, target in pairs)
        variables = [each.embeddings for each in alone]
        optimizers[1].apply(tape.gradient(loss, variables), variables)
        for each, of_one, (_, _, combiner) in zip(rows, expected, sizes, strict=True):
            rtol = 0 if combiner is None or wire_dtype == "float32" else 2**-8
            np.testing.assert_allclose(each, own_block(of_one), rtol=rtol)
    weights = [np.full((12,), 1 / 3, np.float32) if i == 0 else None for i in layer.own_inputs]
    rows = layer([ids[i] for i in layer.own_inputs], weights=weights)
    # All rows of that rank have the type of the wire then.
    rtol = 1e-6 if wire_dtype == "float32" else 2**-8
    np.testing.assert_allclose(rows[0], own_block(alone[0](ids[0])) / 3, rtol=rtol)
    np.testing.assert_allclose(rows[3], own_block(alone[3](ids[3])), rtol=rtol)


def own_block(values):
    part = len(values) // ksd.size()
    return values[part * ksd.rank() : part * (ksd.rank() + 1)]


@pytest.mark.parametrize("make", ["dense", "sparse"])
def test_layers_of_sok_train_the_bits_of_one_rank(make):
    dtypes = {"row_dtype": "bfloat16", "slot_dtype": "bfloat16", "rounding": "stochastic"}
    if make == "dense":
        layer = All2AllDenseEmbedding(50, 4, 3, 2, seed=1, **dtypes)
        alone = Embedding(None, 4, seed=1, **dtypes)
    else:
        layer = All2AllSparseEmbedding("sum", 50, 4, 3, max_nnz=2, seed=1, **dtypes)
        alone = Embedding(None, 4, "sum", seed=1, **dtypes)
    optimizers = [keras_sparse.optimizers.Adam(0.01) for _ in range(2)]
    for step in range(4):
        keys = np.random.default_rng(step).integers(-20, 20, (8, 3, 2))
        for each, ids, optimizer, scale in [
            (layer, own_part(keys), ksd.DistributedOptimizer(optimizers[0]), ksd.size()),
            (alone, keys, optimizers[1], 1),
        ]:
            with tf.GradientTape() as tape:
                loss = scale * tf.reduce_sum(each(ids))
            variables = each.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)
    every = np.arange(-18, 18).reshape((6, 3, 2))
    every = every if make == "dense" else np.tile(every[..., :1], 2)
    found = layer.find(every.ravel()).rows
    np.testing.assert_array_equal(found, alone.find(every.ravel()).rows)
    assert np.asarray(found).any()


@pytest.mark.skipif(ksd.size() == 1, reason="one rank sends nothing")
@pytest.mark.parametrize(("wire_dtype", "row_share"), [("float32", 0.5), ("bfloat16", 1)])
def test_rows_of_16_bits_travel_in_as_many_bytes(wire_dtype, row_share, monkeypatch):
    bytes_of = {}

    def counting(words, splits, name, *args):
        kind = name.rpartition(".")[2]
        bytes_of[kind] = bytes_of.get(kind, 0) + 4 * int(tf.reduce_sum(splits))
        return alltoall(words, splits, name, *args)

    alltoall = exchange_call.alltoall
    monkeypatch.setattr(exchange_call, "alltoall", counting)
    sent = []
    for row_dtype in ("float32", "bfloat16"):
        bytes_of.clear()
        layer = DistributedEmbedding(
            Embedding(1000, 64, row_dtype=row_dtype), row_slice_threshold=1, wire_dtype=wire_dtype
        )
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(np.arange(1000)))
        tape.gradient(loss, layer.trainable_variables)
        sent.append(dict(bytes_of))
    header = 4 * 8 * (ksd.size() - 1)
    assert sent[1]["ids"] == sent[0]["ids"]
    assert sent[1]["gradients"] == sent[0]["gradients"]
    assert sent[1]["rows"] - header == row_share * (sent[0]["rows"] - header)


@pytest.mark.skipif(ksd.size() == 1, reason="one rank asks no other")
def test_other_dtypes_on_one_rank_are_an_error_on_all():
    row_dtype = "bfloat16" if ksd.rank() == 0 else "float16"
    planned = DistributedEmbedding(Embedding(9, 2, row_dtype=row_dtype), row_slice_threshold=1)
    of_sok = All2AllDenseEmbedding(9, 2, 1, 1, row_dtype=row_dtype)
    named = "row_dtype='bfloat16' of table '.*' on rank 0, row_dtype='float16' on rank 1"
    for layer, ids in [(planned, np.arange(9)), (of_sok, np.zeros((9, 1, 1), np.int64))]:
        with pytest.raises(RuntimeError, match=named):
            layer(ids)


def content(layer):
    """Rows and slots of all tables, in the order of ids."""
    found = []
    for table in packed_tables():
        rows = layer.find(rows_of_table(table), table=table.name)
        found += [rows.rows, *rows.slots.values()]
    return found


# Records that are joined from columns have made their missed steps, and are rounded once more.
@pytest.mark.parametrize(
    ("optimizer", "saved", "loaded", "form", "rtol"),
    [
        ("Adam", 2, 1, "checkpoint", 0),
        ("LazyAdam", 1, 2, "checkpoint", 0),
        ("Adagrad", 2, 1, "weights.h5", 0),
        ("Adagrad", 1, 2, "weights.h5", 0),
        ("Adagrad", 3, 1, "weights.h5", 0),
        ("LazyAdam", 1, 1, "weights.h5", 0),
        ("Adam", 1, 2, "checkpoint", 2**-7),
    ],
)
def test_a_file_goes_on_with_the_bits_of_one_rank(optimizer, saved, loaded, form, rtol, folder):
    dtypes = {"row_dtype": "bfloat16", "slot_dtype": "bfloat16"}
    trained = PackedOnRanks(optimizer, dtypes, **PLACES[saved])
    trained.train(0, 3)
    other = PackedOnRanks(optimizer, dtypes, **PLACES[loaded])
    wide = PackedOnRanks(optimizer, {"row_dtype": "float32"}, **PLACES[loaded])
    path = save(trained.model, folder, form)
    # Rows in float32 would make the missed steps of Adam without rounding.
    for each in [other] if optimizer == "Adam" else [other, wide]:
        load(each.model, path)
        for ours, of_trained in zip(content(each.layer), content(trained.layer), strict=True):
            np.testing.assert_allclose(ours, of_trained, rtol=rtol)
    other.train(3, NUM_STEPS)
    expected, _ = packed_on_one_rank(optimizer, dtypes, NUM_STEPS)
    for rows, of_one in zip(other.rows(), expected, strict=True):
        np.testing.assert_allclose(rows, of_one, rtol=rtol, atol=rtol / 100)
