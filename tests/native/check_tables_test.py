"""What functions of `keras_sparse.native` say where they are not given a list of tables."""

import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse import ops
from keras_sparse.layers import Embedding

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
    with pytest.raises(ValueError, match=r"one element a table.*'variables': 1, 'keys': 2"):
        native.erase_rows([table], [3, 4])
    native.erase_rows([table], [[3, 4]])
    assert table.num_rows == 1
