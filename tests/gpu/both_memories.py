"""Models with tables in memory and in the memory of a GPU. Run by emulated_tables_test.py."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.native import library
from stages import keep_stages


def make_model(storages):
    keras.utils.set_random_seed(3)
    tables = [
        keras_sparse.layers.Embedding(input_dim, 4, combiner=combiner, storage=storage, seed=i)
        for i, (input_dim, combiner, storage) in enumerate(
            zip((None, 50, None, 50), ("sum", "mean", "sum", "sqrtn"), storages, strict=True)
        )
    ]
    group = keras_sparse.layers.GroupEmbedding(tables, output_mode="concat")
    inputs = [keras.Input((3,), dtype="int64") for _ in tables]
    model = keras.Model(inputs, keras.layers.Dense(1)(group(inputs)))
    model.compile(keras_sparse.optimizers.Adam(0.05), "mse")
    return model


def storages(*types):
    return [keras_sparse.StorageOption(each) for each in types]


IN_BOTH = ("HBM", "DRAM", "DRAM", "HBM")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 50, (64, 3)) for _ in range(4)], rng.random(64)


def test_a_model_trains_as_one_in_memory(data, tmp_path):
    inputs, labels = data
    losses, weights = [], []
    for types in (IN_BOTH, ("DRAM",) * 4, ("HBM",) * 4):
        model = make_model(storages(*types))
        losses.append(model.fit(inputs, labels, batch_size=16, epochs=2, verbose=0).history["loss"])
        weights.append([each.numpy() for each in model.trainable_variables[-2:]])
        keras_sparse.saving.save_checkpoint(model, tmp_path / "-".join(types))
    assert losses[0] == losses[1] == losses[2]
    for each in weights[1:]:
        for ours, expected in zip(each, weights[0], strict=True):
            np.testing.assert_array_equal(ours, expected)
    # A checkpoint says nothing of where its tables were.
    predictions = []
    for types in (IN_BOTH, ("HBM",) * 4):
        model = make_model(storages("DRAM", "HBM", "HBM", "DRAM"))
        keras_sparse.saving.load_checkpoint(model, tmp_path / "-".join(types))
        predictions.append(model.predict(inputs, verbose=0))
    np.testing.assert_array_equal(*predictions)


def test_ops_take_tables_of_both():
    on_gpu, in_memory = (
        keras_sparse.EmbeddingVariable(None, 2, seed=1, storage=storage)
        for storage in storages("HBM", "DRAM")
    )
    assert (on_gpu.is_on_gpu, in_memory.is_on_gpu) == (True, False)
    tables = [in_memory, on_gpu, keras_sparse.EmbeddingVariable(7, 2, storage=on_gpu.storage)]
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build(tables)
    grads = [
        tf.IndexedSlices(tf.ones((n, 2)), tf.range(n, dtype=tf.int64), (2**62, 2))
        for n in (3, 5, 6)
    ]
    optimizer.apply(grads, tables)
    assert native.table_sizes(tables).numpy().tolist() == [3, 5, 7]
    assert native.table_stats(tables).numpy()[:, 0].tolist() == [3, 5, 7]
    ids = [tf.constant([0, 1], tf.int64)] * 3
    rows = native.lookup(tables, ids)
    np.testing.assert_array_equal(rows[0], rows[1])
    joined = native.lookup(tables, ids, joined=True)
    np.testing.assert_array_equal(joined, np.concatenate(rows, axis=1))
    native.clear_tables(tables)
    assert native.table_sizes(tables).numpy().tolist() == [0, 0, 7]


def test_a_table_is_looked_up_twice():
    rows = []
    for storage in storages("DRAM", "HBM"):
        table = keras_sparse.EmbeddingVariable(None, 4, seed=1, storage=storage)
        optimizer = keras_sparse.optimizers.SGD(0.1, global_clipnorm=1.0)
        optimizer.build([table])
        with tf.GradientTape() as tape:
            pooled = native.lookup(
                [table, table],
                [tf.constant([1, 2, 1], tf.int64), tf.constant([2, 3], tf.int64)],
                row_splits=[tf.constant([0, 2, 3], tf.int64), tf.constant([0, 1, 2], tf.int64)],
                combiners=["sum", "mean"],
            )
        grads = tape.gradient(pooled, [table.value], output_gradients=[tf.ones((2, 4))] * 2)
        optimizer.apply(grads, [table])
        rows.append(native.lookup([table], [tf.constant([1, 2, 3], tf.int64)])[0].numpy())
    np.testing.assert_array_equal(*rows)


def test_a_dataset_looks_rows_up():
    table = keras_sparse.EmbeddingVariable(20, 3, storage=keras_sparse.StorageOption("HBM"))
    ids = np.arange(20).reshape(5, 4)
    dataset = tf.data.Dataset.from_tensor_slices(ids).map(
        lambda each: native.lookup([table], [each])
    )
    rows = np.concatenate([each[0].numpy() for each in dataset])
    np.testing.assert_array_equal(rows, native.lookup([table], [ids.ravel()])[0])


@pytest.mark.parametrize(
    ("mode", "used"), [("exact", {"HBM_DRAM"}), ("stale", {"HBM_DRAM", "DRAM"})]
)
def test_prefetched_lookups_are_those_of_their_steps(data, mode, used, monkeypatch):
    inputs, labels = data
    dataset = tf.data.Dataset.from_tensor_slices((tuple(inputs), labels)).batch(16)
    # The lookup of all four tables is one of those on the GPU and one of those in memory.
    types = ("HBM_DRAM", "DRAM", "DRAM", "HBM")
    losses, models = [], []
    for prefetches in (False, True):
        on_both = storages(*types)
        on_both[0] = keras_sparse.StorageOption("HBM_DRAM", storage_size=["1kB", "1MB"])
        models.append(make_model(on_both))
        stages = keep_stages(monkeypatch)
        batches = dataset
        if prefetches:
            batches = keras_sparse.data.prefetch_lookups(dataset, models[-1], 1, 2, mode)
        fit = {"epochs": 2, "verbose": 0, "shuffle": False, "callbacks": stages[: len(used)]}
        losses.append(models[-1].fit(batches, **fit).history["loss"])
    assert (losses[0] == losses[1]) == (mode == "exact")
    tables = [v for v in models[1].variables if isinstance(v, keras_sparse.EmbeddingVariable)]
    stats = [each.stats()["prefetch"] for each in tables]
    assert {types[i] for i, counts in enumerate(stats) if counts["used"] >= 2 * 3} == used
    assert max(counts["staleness_max"] for counts in stats) <= (0 if mode == "exact" else 3)


def test_errors_name_what_they_are_about():
    table = keras_sparse.EmbeddingVariable(
        5, 2, storage=keras_sparse.StorageOption("HBM"), name="films"
    )
    words = r"id must be in \[0, 5\) for table 'films'.*Received: ids\[1\] = 9"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        native.lookup([table], [tf.constant([1, 9], tf.int64)])
    with pytest.raises(ValueError, match="folder for the files of the lower tiers"):
        keras_sparse.StorageOption("HBM_DRAM_SSDHASH")
    storage = keras_sparse.StorageOption("HBM_DRAM")
    with pytest.raises(NotImplementedError, match="static table keeps all its rows in its first"):
        keras_sparse.EmbeddingVariable(5, 2, storage=storage)


@pytest.mark.parametrize(
    ("rows", "sizes", "words"),
    [
        (
            2**30,  # 4 TiB, which no GPU has
            None,
            "must fit the GPU's memory; keep it in the CPU's, .*Received: [0-9]+ bytes more, where "
            "[0-9]+ of [0-9]+ bytes of what TensorFlow may have of the GPU are free",
        ),
        (
            None,
            ["4TB"],
            "`storage_size` of table 'films' must be no more than what tables may have of the GPU's"
            ".*Received: 4000000000000 bytes where there are [0-9]+",
        ),
    ],
)
def test_a_table_that_a_gpu_has_no_room_for_says_how_much_there_is(rows, sizes, words):
    storage = keras_sparse.StorageOption("HBM", storage_size=sizes)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=words):
        keras_sparse.EmbeddingVariable(rows, 1024, storage=storage, name="films")


def test_a_gpu_without_room_for_gradients_is_an_error_that_goes_to_all_ranks():
    # The sums of a row of so many gradients: 64 GiB, and 1 TiB where a GPU may have as much.
    width, num_ids = 2**24, 2**18 if "EMULATED_BUILD_INFO" in os.environ else 2**22
    table = (-1, width, 0, 0, 1, 1, 1, width)  # which the second of two ranks has
    exchange = {"table_names": ["films"], "wire_dtype": "float32", "exchange": "test"}
    of_rank = [{"layout": [2, rank, *table], **exchange} for rank in range(2)]
    with tf.device("GPU:0"):
        returned = library.lib.keras_sparse_return_gradients(
            output_grads=[tf.zeros((1, width))],
            reply_rows=[[0, 1], [0, 0]],
            positions=[tf.zeros(num_ids, tf.int32)],
            position_splits=[[0, num_ids]],
            scales=[[1.0]],
            weights=[tf.zeros(0)],
            input_tables=[0],
            combiners=["sum"],
            scale=0.5,
            W=tf.float32,
            **of_rank[0],
        )
        sent = returned.words.numpy()[: returned.splits[1]]
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"\[rank 0 of 2\] a table must"):
            library.lib.keras_sparse_gather_gradients(
                words=sent,
                splits=[len(sent), 0],
                own_words=returned.own_words,
                served_rows=tf.constant([[1, 0]], tf.int64),
                output_dims=[width],
                P=1,
                **of_rank[1],
            )


WIDE = 2**22  # floats: a row takes 16 MiB, and 10,000 more than any GPU has


def tables_of(refusal):
    """Two tables, of which the second refuses the third id or what it would take, and the ids."""
    id_outside, others = tf.constant([1, 2, 9], tf.int64), tf.constant([1, 2, 3], tf.int64)
    if refusal == "an id outside of a table on the GPU":
        good, bad = (None, 2, "DRAM"), (5, 2, "HBM")
    elif refusal == "an id outside of a table in memory":
        good, bad = (None, 2, "HBM"), (5, 2, "DRAM")
    elif refusal == "no room within a size":
        good, bad = (None, 2, "DRAM"), (None, 2, "HBM", [16])
    else:
        good, bad = (None, 2, "DRAM"), (None, WIDE, "HBM")
        id_outside = tf.range(10_000, dtype=tf.int64)
    tables = [
        keras_sparse.EmbeddingVariable(
            input_dim, width, storage=keras_sparse.StorageOption(storage_type, None, *sizes)
        )
        for input_dim, width, storage_type, *sizes in (good, bad)
    ]
    return tables, [others, id_outside]


def pooled(table, ids):
    """The gradient of a sum of all rows."""
    return native.PooledSlices(
        ids,
        tf.ones((1, table.output_dim)),
        tf.stack([0, tf.size(ids, tf.int64)]),
        tf.zeros(0),
        "sum",
        tf.constant([2**62, table.output_dim], tf.int64),
        device=table.native.device,
    )


def two_optimizers(tables):
    """An optimizer for each table, the one that refuses first or last."""
    kinds = (keras_sparse.optimizers.Adagrad, keras_sparse.optimizers.SGD)
    return keras_sparse.optimizers.MultiOptimizer(
        {
            (lambda variable, table=table: variable is table): kind(0.1)
            for table, kind in zip(tables, kinds, strict=True)
        }
    )


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("of", ["one optimizer", "an accumulating one", "two", "two in reverse"])
@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ("an id outside of a table on the GPU", r"Received: ids\[2\] = 9"),
        ("an id outside of a table in memory", r"Received: ids\[2\] = 9"),
        ("no room within a size", "`storage_size` must hold all rows of table"),
        ("no room on the GPU", "must fit the GPU's memory.*Received: [0-9]+ bytes more"),
    ],
)
def test_a_step_that_one_table_refuses_changes_none(refusal, words, of, in_function):
    steps = 2 if of == "an accumulating one" else None
    if steps and refusal != "an id outside of a table in memory":
        pytest.skip("TensorFlow's own kernels, by which a GPU joins gradients, may be none")
    tables, ids = tables_of(refusal)
    if of.startswith("two"):
        optimizer = two_optimizers(tables[:: -1 if of == "two in reverse" else 1])
    else:
        optimizer = keras_sparse.optimizers.SGD(0.1, gradient_accumulation_steps=steps)
    optimizer.build(tables)

    def step():
        optimizer.apply([pooled(*each) for each in zip(tables, ids, strict=True)], tables)

    run = tf.function(step) if in_function else step
    if steps:
        run()
    versions = native.snapshot_versions(tables)[0].numpy()
    refused = (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)
    with pytest.raises(refused, match=words):
        run()
    assert native.table_sizes(tables).numpy().tolist() == [0, tables[1].input_dim or 0]
    np.testing.assert_array_equal(native.snapshot_versions(tables)[0], versions)
    if steps is None:  # and one that both take is made
        ids[1] = ids[0][:1]
        step()
        assert native.table_sizes(tables).numpy().tolist() == [3, tables[1].input_dim or 1]
