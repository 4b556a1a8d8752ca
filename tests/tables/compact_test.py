"""What `compact` leaves of rows that have gone in the files of tiers: nothing."""

import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from table_twins import DIM
from table_twins import small
from table_twins import STACKS
from table_twins import Twins


def content(table):
    keys, records = (np.concatenate(each) for each in zip(*table.export(), strict=True))
    return dict(zip(keys.tolist(), records, strict=True))


def num_found(rows, folder):
    """How many of some rows have their bytes in the files of a folder."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return sum(any(row.tobytes() in file for file in files) for row in rows)


@pytest.mark.parametrize("storage_type", STACKS)
def test_no_byte_is_left_of_rows_that_have_gone_or_come_up(storage_type, tmp_path):
    twins = Twins(small(tmp_path, storage_type))
    twins.train_some(12, num_ids=1500)
    before = content(twins.tiered)
    twins.train_some(3, num_ids=1500)
    for table in twins.tables:
        table.erase(np.arange(0, 1500, 7))
    after = content(twins.tiered)
    gone = [row[:DIM] for key, row in before.items() if not np.array_equal(row, after.get(key))]
    gone = gone[:: len(gone) // 60]
    twins.wait_until_written()
    has_files = storage_type != "HBM_DRAM"
    assert (num_found(gone, tmp_path) > 5) == has_files
    twins.tiered.compact()
    assert num_found(gone, tmp_path) == 0
    twins.check()
    assert (num_found([row[:DIM] for row in after.values()][:300], tmp_path) > 5) == has_files
    twins.train_some(3, num_ids=1500)
    twins.check()


def layers_of(storage):
    options = {"storage": storage}
    return [
        Embedding(None, 8, **options),
        Embedding(None, 8, padding_id=0, **options),
        DistributedEmbedding(Embedding(None, 8, padding_id=0, **options)),
        GroupEmbedding({"users": Embedding(None, 8, **options), "films": Embedding(9, 8)}),
        All2AllDenseEmbedding(100, 8, 1, 1, use_hashtable=True, **options),
    ]


@pytest.mark.parametrize("number", range(5))
def test_layers_have_it_for_all_their_tables(number, tmp_path):
    layer = layers_of(small(tmp_path))[number]
    layer.build((None, 1))
    table = {"table": "users"} if isinstance(layer, GroupEmbedding) else {}
    keys = np.arange(1, 5000)
    rows = np.random.default_rng(0).normal(size=(len(keys), 8)).astype(np.float32)
    layer.assign(keys, rows, **table)
    gone = rows[:30]
    layer.stats()  # waits for what the background writes
    assert num_found(gone, tmp_path) > 5
    layer.erase(keys[:30], **table)
    if table:
        layer.compact(table="films")
        assert num_found(gone, tmp_path) > 5
    layer.compact()
    assert num_found(gone, tmp_path) == 0
    np.testing.assert_array_equal(layer.find(keys[30:], **table).rows, rows[30:])
    if table:
        layer.compact(table="users")
        with pytest.raises(ValueError, match=r"one of \['users', 'films'\]"):
            layer.compact(table="songs")


def test_a_table_without_files_has_nothing_to_do():
    for table in (EmbeddingVariable(5, 2, seed=1), EmbeddingVariable(None, 2)):
        table.assign([3], [[1, 2]])
        table.compact()
        np.testing.assert_array_equal(table.find([3]).rows, [[1, 2]])
    with pytest.raises(RuntimeError, match="`compact` must be called outside of"):
        tf.function(table.compact)()
    with pytest.raises(RuntimeError, match="`compact` must be called on"):
        Embedding(None, 2).compact()
