import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse.tables import record_layout

KEYS = np.array([-(2**63), -1, 0, 5, 2**63 - 1])


def test_a_dynamic_table_has_no_rows_until_they_are_written():
    table = EmbeddingVariable(None, 2)
    assert (table.is_dynamic, table.num_rows, table.shape) == (True, 0, (0, 2))
    table.import_(KEYS, np.ones((5, 2)))
    assert (table.num_rows, table.shape) == (5, (5, 2))
    table.clear()
    assert table.num_rows == 0


def test_a_static_table_has_all_its_rows():
    table = EmbeddingVariable(4, 2, initializer="ones")
    assert (table.is_dynamic, table.num_rows, table.shape) == (False, 4, (4, 2))
    np.testing.assert_array_equal(table.numpy(), np.ones((4, 2)))
    np.testing.assert_array_equal(np.array(table), np.ones((4, 2)))


def test_a_variable_has_its_options_as_they_were_given():
    options = {"input_dim": None, "output_dim": 2, "out_of_range": "error", "seed": 3}
    options |= {"admission": keras_sparse.CounterFilter(2), "storage": keras_sparse.StorageOption()}
    options |= {"eviction": keras_sparse.LruEvict(), "max_rows": 7, "frequency": True}
    table = EmbeddingVariable(initializer="ones", **options)
    assert {name: getattr(table, name) for name in options} == options
    assert isinstance(table.initializer, keras.initializers.Ones)


def test_help_says_what_a_property_of_the_table_is():
    assert EmbeddingVariable.num_rows.__doc__ == "Integer. Rows in the table now."
    properties = [each for each in vars(EmbeddingVariable).values() if isinstance(each, property)]
    assert not any("attrgetter" in (each.__doc__ or "") for each in properties)


def test_exports_in_pieces_what_was_imported():
    table = EmbeddingVariable(None, 2)
    rows = np.arange(10, dtype="float32").reshape(5, 2)
    table.import_(KEYS, rows)
    content = {}
    for keys, records in table.export(1):
        content |= dict(zip(keys.tolist(), records, strict=True))
    assert sorted(content) == KEYS.tolist()
    np.testing.assert_array_equal([content[key] for key in KEYS.tolist()], rows)


def test_assigns_all_rows_of_a_static_table():
    table = EmbeddingVariable(3, 2)
    for value in ([[1, 2], [3, 4], [5, 6]], np.arange(6.0).reshape(3, 2)):
        table.assign(np.asarray(value))
        np.testing.assert_array_equal(table.numpy(), value)
    tf.function(table.assign)(tf.ones((3, 2)))
    np.testing.assert_array_equal(table.numpy(), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*value.shape=\(2, 2\)"):
        table.assign(np.ones((2, 2)))


@pytest.mark.parametrize(
    "use", [lambda t: t.numpy(), lambda t: t.assign(np.ones((0, 2))), np.array]
)
def test_a_dynamic_table_names_the_way_to_keep_the_best_weights(use):
    with pytest.raises(NotImplementedError, match=r"ModelCheckpoint.*save_best_only=True"):
        use(EmbeddingVariable(None, 2))


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t[0],
        lambda t: t + 1,
        lambda t: 2 * t,
        lambda t: t @ np.ones((2, 1)),
        lambda t: t // 2,
        lambda t: 2 % t,
        lambda t: t >= 0,
        lambda t: +t,
        round,
        tf.convert_to_tensor,
        keras.ops.sum,
        lambda t: t.assign_add(np.ones((3, 2))),
        lambda t: tf.gather(t, [1]),
        lambda t: keras.ops.take(t, [1], 0),
        lambda t: tf.nn.embedding_lookup(t, [1]),
        lambda t: tf.nn.embedding_lookup_sparse(t, tf.sparse.eye(2, dtype=tf.int64), None),
        lambda t: tf.nn.embedding_lookup_sparse(t, tf.ragged.constant([[1]]), None),
        lambda t: tf.nn.safe_embedding_lookup_sparse([t], tf.sparse.eye(2, dtype=tf.int64)),
    ],
)
@pytest.mark.parametrize("input_dim", [3, None])
def test_is_nothing_to_compute_with_and_names_what_reads_rows(use, input_dim):
    with pytest.raises(TypeError, match=r"computed with as a whole.*embedding_lookup_sparse"):
        use(EmbeddingVariable(input_dim, 2))


def test_a_dynamic_tables_gradient_does_not_turn_dense_by_mistake():
    table = EmbeddingVariable(None, 2)
    with tf.GradientTape() as tape:
        (rows,) = keras_sparse.ops.lookup([table], [tf.constant([5], tf.int64)])
    with pytest.raises(tf.errors.OpError):
        tf.convert_to_tensor(tape.gradient(rows, table))


def test_a_stock_optimizer_is_refused_before_it_makes_a_slot():
    table = EmbeddingVariable(10, 2, name="words")
    optimizer = keras.optimizers.Adam()
    with pytest.raises(TypeError, match=r"keras_sparse\.optimizers.*'words'"):
        optimizer.build([table])
    assert len(optimizer.variables) == 2  # iteration and learning rate


def test_a_stock_optimizer_without_slots_is_refused_at_the_update():
    table = EmbeddingVariable(10, 2)
    gradient = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([3]), (10, 2))
    with pytest.raises(TypeError, match=r"keras_sparse\.optimizers"):
        keras.optimizers.SGD().apply([gradient], [table])


def test_other_strategies_are_refused():
    table = EmbeddingVariable(3, 2)
    with tf.distribute.OneDeviceStrategy("cpu:0").scope():
        with pytest.raises(NotImplementedError, match="created under OneDeviceStrategy"):
            EmbeddingVariable(3, 2)
        with pytest.raises(NotImplementedError, match="looked up under OneDeviceStrategy"):
            keras_sparse.ops.lookup([table], [tf.constant([1], tf.int64)])


def test_is_not_in_tensorflow_checkpoints(tmp_path):
    layer = keras_sparse.layers.Embedding(3, 2)
    layer.build()
    with pytest.raises(NotImplementedError, match=r"Use `model\.save`"):
        tf.train.Checkpoint(layer=layer).write(tmp_path / "checkpoint")


def test_a_new_rule_gives_rows_fresh_slots():
    table = EmbeddingVariable(None, 1)
    table.import_([1], [[2.0]])
    table.table.set_rule("row_wise_adagrad", {"initial_accumulator": 0.25, "epsilon": 0.0})
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records, [[2, 0.25]])
    assert (table.slot_names, table.record_floats) == (("row_accumulator",), 2)
    table.table.set_rule("adam", {"beta_1": 0.5, "beta_2": 0.5, "epsilon": 0.0}, weight_decay=0.5)
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records, [[2, 0, 0]])
    table.table.set_rule("sgd", {})
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records, [[2]])


@pytest.mark.parametrize(
    ("rule", "constants", "words"),
    [
        ("no rule", {}, "`rule` must be one of .*'adagrad'"),
        *[
            (
                "adagrad",
                each,
                r"`constants` of rule 'adagrad' must be \('epsilon', 'initial_accumul",
            )
            for each in ({}, {"epsilon": 0.0}, {"initial_accumulator": 0.5, "x": 1})
        ],
    ],
)
def test_rules_and_their_constants_are_named(rule, constants, words):
    table = EmbeddingVariable(None, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        table.table.set_rule(rule, constants)
    assert table.rule is None


def test_a_rule_with_a_slot_of_unknown_width_is_refused(monkeypatch):
    monkeypatch.setattr(record_layout, "_ROW_SLOTS", ())
    with pytest.raises(RuntimeError, match=r"widths of a rule's slots .*of 3 floats, not 4"):
        keras_sparse.optimizers.RowWiseAdagrad().build([EmbeddingVariable(4, 2)])


def test_shows_what_it_is():
    assert repr(EmbeddingVariable(None, 2)) == (
        "<EmbeddingVariable path=embeddings, shape=(dynamic, 2)>"
    )


def test_refuses_keys_that_are_not_integers():
    with pytest.raises(
        TypeError, match=r"`keys` must be integers\. Received: keys of dtype float32"
    ):
        EmbeddingVariable(None, 1).import_([1.5], [[0.0]])
