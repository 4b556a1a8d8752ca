"""Padding by an id of one's own: no row, no gradient, no share in a mean."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from pairwise import each_pair

# In the range of the table, below it, and an id that 32 bits do not hold.
PADDINGS = [3, -1, 2**40]
SAMPLES = [[1, None, 2], [None, None, None], [4, 4, None], [None, 0, 7]]
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, (4, 3)).astype(np.float32)


def padded(padding_id):
    return np.array([[padding_id if i is None else i for i in sample] for sample in SAMPLES])


def as_ragged(matrix):
    return tf.RaggedTensor.from_tensor(matrix)


def as_sparse(matrix):
    places = tf.where(tf.ones_like(matrix, tf.bool))
    return tf.SparseTensor(places, tf.reshape(matrix, (-1,)), matrix.shape)


FORMS = {"dense": tf.constant, "ragged": as_ragged, "sparse": as_sparse}


def expected_of(layer, weights, combiner):
    """In float64, from the row of each id."""
    pooled = []
    for sample, factors in zip(SAMPLES, weights, strict=True):
        kept = [i for i, each in enumerate(sample) if each is not None]
        rows = np.zeros((3, layer.output_dim))
        for i in kept:
            (row,) = keras_sparse.ops.embedding_lookup(layer.embeddings, [sample[i]])
            rows[i] = factors[i] * np.float64(row)
        scale = 1.0
        if combiner == "mean":
            scale = factors[kept].sum()
        elif combiner == "sqrtn":
            scale = np.sqrt((np.float64(factors[kept]) ** 2).sum())
        pooled.append(rows if combiner is None else rows.sum(0) / (scale or 1.0))
    return np.array(pooled)


@each_pair(
    combiner=[None, "sum", "mean", "sqrtn"],
    form=FORMS,
    padding_id=PADDINGS,
    input_dim=[None, 9],
)
def test_reads_as_nothing(padding_id, form, combiner, input_dim):
    layer = Embedding(input_dim, 2, combiner, padding_id=padding_id)
    ids = FORMS[form](padded(padding_id))
    for weights in (None, WEIGHTS):
        given = None if weights is None else FORMS[form](weights)
        outputs = layer(ids, weights=given)
        outputs = outputs.to_tensor() if isinstance(outputs, tf.RaggedTensor) else outputs
        expected = expected_of(layer, np.ones((4, 3)) if weights is None else weights, combiner)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5)


@pytest.mark.parametrize("combiner", [None, "mean"])
def test_has_no_row_and_no_gradient(combiner):
    layer = Embedding(None, 2, combiner, padding_id=-1)
    model = keras.Sequential([keras.Input((3,), dtype="int64"), layer])
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=True)
    model.fit(padded(-1), np.ones(model.output_shape[1:])[None].repeat(4, 0), verbose=0)
    ((keys, _),) = layer.embeddings.export()
    assert sorted(keys) == [0, 1, 2, 4, 7]
    assert layer.stats()["lookups"] == 6


@each_pair(padding_id=PADDINGS, input_dim=[None, 9])
def test_has_no_row_by_its_key(padding_id, input_dim):
    make = functools.partial(Embedding, input_dim, 2, padding_id=padding_id)
    for layer in (make(), DistributedEmbedding(make()), GroupEmbedding([make()])):
        layer.build((None, 1))
        keys, rows = np.array([7, padding_id, 5]), np.ones((3, 2))
        with pytest.raises(ValueError, match=rf"padding_id={padding_id}, which .* Received: keys"):
            layer.assign(keys, rows)
        layer.assign(keys[::2], rows[::2])
        _table_of(layer).import_([3], [[4, 4]])  # as a file may have one of the padding
        assert layer.contains(keys).tolist() == [True, False, True]
        found = layer.find(keys.tolist())
        assert found.exist.tolist() == [True, False, True]
        assert found.rows.tolist() == [[1, 1], [0, 0], [1, 1]]
        assert layer.find([padding_id]).rows.tolist() == [[0, 0]]
        assert layer.find([]).rows.shape == (0, 2)
        with pytest.raises(TypeError, match="`keys` must be one list of integers"):
            layer.contains([0.5])


def test_the_slots_of_padding_are_zeros():
    layer = Embedding(None, 2, padding_id=-1)
    layer.build()
    keras_sparse.optimizers.Adagrad(0.5, 0.25).build(layer.trainable_variables)
    ((slot, values),) = layer.find([-1, 9]).slots.items()
    assert (slot, values.tolist()) == ("accumulator", [[0, 0], [0.25, 0.25]])


def _table_of(layer):
    return layer.embeddings if isinstance(layer, Embedding) else layer.tables[0]


def test_rows_one_by_one_carry_a_mask():
    layer = Embedding(9, 2, padding_id=-1)
    rows = layer(padded(-1))
    mask = padded(-1) != -1
    np.testing.assert_array_equal(rows._keras_mask, mask)
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(np.array(rows).sum(1) / mask.sum(1, keepdims=True))
    pooled = keras.layers.GlobalAveragePooling1D()(rows).numpy()
    np.testing.assert_allclose(np.nan_to_num(pooled), expected, rtol=1e-6)
    wide = Embedding(None, 2, padding_id=2**40)  # which 32 bits do not hold
    np.testing.assert_array_equal(wide(tf.constant(padded(-1), tf.int32))._keras_mask, mask | 1)


def test_what_a_sparse_tensor_leaves_out_is_padding_without_a_combiner():
    ids = tf.SparseTensor([[0, 1], [1, 0]], tf.constant([5, 0], tf.int32), (2, 2))
    layer = Embedding(None, 2, padding_id=2**40)
    rows = layer(ids)
    np.testing.assert_array_equal(np.any(rows, axis=-1), [[False, True], [True, False]])
    np.testing.assert_array_equal(rows._keras_mask, [[False, True], [True, False]])


@each_pair(
    mode=["list", "concat", "stack"],
    combiner=[None, "mean"],
    many=[DistributedEmbedding, GroupEmbedding],
)
def test_layers_of_many_tables_do_as_each_table_does(many, combiner, mode):
    options = [{"padding_id": -1}, {"padding_id": 3}, {}]
    ids = [padded(-1), padded(3), padded(5)]
    alone = [Embedding(9, 2, combiner, seed=i, **each) for i, each in enumerate(options)]
    rows = [layer(each).numpy() for layer, each in zip(alone, ids, strict=True)]
    layers = [Embedding(9, 2, combiner, seed=i, **each) for i, each in enumerate(options)]
    outputs = many(layers, output_mode=mode)(ids)
    joined = {
        "list": rows,
        "concat": np.concatenate(rows, axis=-1),
        "stack": np.stack(rows, axis=-2),
    }
    np.testing.assert_array_equal(outputs, joined[mode])


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_in_half_precision(policy):
    rows = Embedding(9, 2, padding_id=-1, dtype=policy)(padded(-1))
    assert rows.dtype == policy.removeprefix("mixed_")
    np.testing.assert_array_equal(tf.reduce_any(rows != 0, -1), padded(-1) != -1)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"padding_id": 2**63}, ValueError, "must fit int64"),
        ({"padding_id": "-"}, TypeError, "`padding_id`"),
        ({"padding_id": 1, "mask_zero": True}, ValueError, "None with mask_zero=True"),
    ],
)
def test_refuses_what_makes_no_sense(arguments, error, words):
    with pytest.raises(error, match=words):
        Embedding(None, 2, **arguments)


@pytest.mark.parametrize("options", [{"mask_zero": True}, {"padding_id": 0}], ids=str)
def test_a_bag_of_one_id_may_be_padding(options):
    for combiner in ("sum", "mean", "sqrtn"):
        rows = Embedding(None, 2, combiner, "ones", **options)(np.array([[0], [3]]))
        np.testing.assert_array_equal(rows, [[0, 0], [1, 1]])
