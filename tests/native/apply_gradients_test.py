import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse import ops
from keras_sparse.layers import Embedding
from stages import Stage

ADAM = {"beta_1": 0.5, "beta_2": 0.5, "epsilon": 0.0}
MOMENTUM = {"momentum": 0.5, "nesterov": False}


def make_table(rule="sgd", constants=None, **kwargs):
    table = EmbeddingVariable(3, 1, initializer="zeros")
    table.table.set_rule(rule, constants or {}, **kwargs)
    return table


def apply(tables, numbers, ids=(1,)):
    ids = tf.constant(ids, tf.int64)
    grads = tf.ones((len(ids), 1))
    native.apply_gradients(tables, [ids] * len(tables), [grads] * len(tables), numbers)


def test_each_table_has_numbers_of_its_own():
    tables = [make_table(), make_table(weight_decay=0.5), make_table("momentum", MOMENTUM)]
    tables[1].assign(np.full((3, 1), 4.0))
    apply(tables, [[1.0], [0.5], [2.0]])
    np.testing.assert_array_equal([table.numpy()[1, 0] for table in tables], [-1, 2.5, -2])


def test_a_batch_without_ids_is_a_step_of_the_rule():
    table = make_table("momentum", MOMENTUM)
    apply([table], [[8.0]])
    apply([table], [[8.0]], ids=())
    np.testing.assert_array_equal(table.numpy(), [[0], [-12], [0]])
    apply([table], [[8.0]], ids=(0, 0))
    np.testing.assert_array_equal(table.numpy(), [[-16], [-14], [0]])


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([[1.0]], r"`numbers` must have one row a table, 2\. Received: numbers\.shape=\[1,1\]"),
        ([1.0, 1.0], r"`numbers` must have one row a table, 2\. Received: numbers\.shape=\[2\]"),
        ([[1.0], [1.0]], r"`numbers` of rule 'adam' must be 2\. Received: 1"),
        ([[1.0, 1.0], [1.0, 1.0]], r"`numbers` of rule 'sgd' must be 1\. Received: 2"),
    ],
)
def test_refuses_numbers_that_are_not_the_rules(numbers, words):
    tables = [make_table("adam" if "'adam'" in words else "sgd", ADAM if "'adam'" in words else {})]
    tables.append(make_table())
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        apply(tables, tf.constant(numbers))
    for table in tables:
        assert not table.numpy().any()


def test_a_refused_step_leaves_waiting_rows_and_all_tables_as_they_are():
    waiting, plain = make_table("momentum", MOMENTUM), make_table(weight_decay=1.0)
    apply([waiting], [[8.0]])
    before = waiting.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`weight_decay` times the learning"):
        apply([waiting, plain], [[8.0], [1.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"id must be in \[0, 3\)"):
        apply([waiting, plain], [[8.0], [0.5]], ids=(3,))
    np.testing.assert_array_equal(waiting.numpy(), before)
    apply([waiting], [[8.0]], ids=())
    np.testing.assert_array_equal(waiting.numpy(), [[0], [-12], [0]])


def test_set_rule_needs_a_weight_decay_for_each_table():
    message = r"`weight_decays` must have one number a table, 2\. Received: 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        native.set_rule([make_table(), make_table()], "sgd", {}, [0.0])


def test_set_rule_says_what_it_has_laid_out():
    tables = [make_table(), EmbeddingVariable(None, 3)]
    generations, widths, slot_names = native.set_rule(tables, "adam", ADAM, [0.0, 0.5])
    assert generations == [2, 1]
    assert widths == [3, 9]
    assert slot_names == ["momentum", "velocity"]


# The stage's ops by themselves, as code of one's own calls them.
def test_a_lookup_takes_what_was_staged_by_hand():
    variable = EmbeddingVariable(10, 2, initializer="ones")

    def look_up(ids):
        return native.lookup([variable], [tf.constant(ids, "int64")])[0]

    stage = native.create_lookup_stage(num_threads=2, capacity=3, on_gpu=variable.is_on_gpu)
    np.testing.assert_array_equal(native.lookup_stage_state(stage), [2, 3, 0])
    for number, ids in enumerate(([1, 2], [3, 4, 5])):
        with native.collect_lookups() as lookups:
            np.testing.assert_array_equal(look_up(ids), np.zeros((len(ids), 2)))
        native.stage_lookups(stage, number, lookups, reads_rows=True)
    Stage(stage).wait(2)
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 0, 0, 0]

    np.testing.assert_array_equal(look_up([1, 2]), np.ones((2, 2)))
    np.testing.assert_array_equal(native.lookup_stage_state(stage), [2, 3, 1])
    np.testing.assert_array_equal(look_up([6]), np.ones((1, 2)))
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 1, 1, 0]
    del stage  # it ends with what holds it, and the lookup that is left is no step's
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 1, 1, 1]


# What functions of `keras_sparse.native` say where they are not given a list of tables.
KEYS = tf.constant([3], tf.int64)
ROWS = tf.zeros((1, 2))
CALLS = [
    lambda tables: native.clear_tables(tables),
    lambda tables: native.compact_tables(tables),
    lambda tables: native.erase_rows(tables, [KEYS]),
    lambda tables: native.evict_rows(tables, None),
    lambda tables: native.export_rows(tables, [0], 5),
    lambda tables: ops.group_embedding_lookup(tables, [KEYS]),
    lambda tables: native.import_rows(tables, [KEYS], [ROWS], [KEYS]),
    lambda tables: native.lookup(tables, [KEYS]),
    lambda tables: native.snapshot_versions(tables),
    lambda tables: native.staging_stats(tables),
    lambda tables: native.table_sizes(tables),
    lambda tables: native.table_stats(tables),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (lambda table: table, r"` must be a list .*: \[table\], \[\[3, 12\]\]\. .* EmbeddingVari"),
        (lambda table: [table, Embedding(4, 2)], r"\[1\]` must be one .*`layer\.embeddings`"),
    ],
)
def test_says_that_tables_come_as_a_list(call, wrap, words):
    with pytest.raises(TypeError, match=f"`(variables|params){words}"):
        call(wrap(EmbeddingVariable(None, 2)))


@pytest.mark.parametrize(
    "call",
    [
        lambda table: ops.lookup([table], [KEYS]),
        lambda table: ops.embedding_lookup(table, [3]),
        lambda table: ops.apply_gradients([table], [KEYS], [ROWS], tf.constant([[0.5]])),
    ],
)
def test_gradients_have_no_place_at_the_table_of_a_variable(call):
    variable = EmbeddingVariable(None, 2, name="users")
    with pytest.raises(TypeError, match=r"Give the variable itself.* path 'users'"):
        call(variable.table)


def test_erases_only_where_each_table_has_its_keys():
    table = EmbeddingVariable(None, 2)
    table.import_([3, 4, 5], tf.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"one element per table.*'variables': 1, 'keys': 2"):
        native.erase_rows([table], [3, 4])
    native.erase_rows([table], [[3, 4]])
    assert table.num_rows == 1
