import keras

from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import split_embedding_variable_from_others


def test_splits_by_kind_in_order():
    tables = [EmbeddingVariable(2, 1), EmbeddingVariable(None, 1)]
    others = [keras.Variable([1.0]), keras.Variable([2.0])]
    mixed = (others[0], tables[0], tables[1], others[1])
    embedding, rest = split_embedding_variable_from_others(iter(mixed))
    assert [id(v) for v in embedding] == [id(v) for v in tables]
    assert [id(v) for v in rest] == [id(v) for v in others]


def test_takes_no_variables():
    assert split_embedding_variable_from_others([]) == ([], [])
