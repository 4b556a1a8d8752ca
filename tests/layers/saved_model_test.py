"""What TensorFlow saves by itself would lack tables: an error that says what saves them."""

import keras
import pytest
import tensorflow as tf

from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding

LAYERS = {
    "Embedding": lambda: Embedding(None, 4, "sum"),
    "GroupEmbedding": lambda: GroupEmbedding(Embedding(10, 4, "sum")),
    "All2AllDenseEmbedding": lambda: All2AllDenseEmbedding(9, 4, 1, 1, dynamic_input=True),
    "All2AllSparseEmbedding": lambda: All2AllSparseEmbedding("sum", 9, 4, 1, 2),
}


def as_input(name):
    shape = () if name == "All2AllDenseEmbedding" else (2,)
    return keras.Input(shape, dtype="int64", ragged=name == "All2AllSparseEmbedding" or None)


@pytest.mark.parametrize("name", LAYERS)
def test_formats_of_tensorflow_are_refused(name, tmp_path):
    ids = as_input(name)
    model = keras.Model(ids, LAYERS[name]()(ids))
    with pytest.raises(NotImplementedError, match=r"Use `model\.save`"):
        tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    with pytest.raises(NotImplementedError, match=r"Use `model\.save`"):
        model.export(tmp_path / "saved_model", verbose=False)
