import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.tables.table_config import LAYER_OPTIONS

IDS = np.array([[1, 2], [3, 1], [0, 0]])
RAGGED = tf.RaggedTensor.from_row_splits([1, 2, 3, 1], [0, 1, 1, 4])
SPARSE = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], tf.constant([1, 2, 3], tf.int64), [3, 4])


@pytest.mark.parametrize(
    ("input_dim", "inputs", "combiner", "output_shape"),
    [
        (4, IDS, None, (3, 2, 5)),
        (None, IDS, "mean", (3, 5)),
        (None, RAGGED, None, (3, None, 5)),
        (4, RAGGED, "sum", (3, 5)),
        (4, SPARSE, None, (3, 4, 5)),
        (None, SPARSE, "sqrtn", (3, 5)),
    ],
)
def test_keeps_the_layer_contract(input_dim, inputs, combiner, output_shape, tmp_path):
    checks.check_layer(Embedding(input_dim, 5, combiner), inputs, output_shape, tmp_path)


@pytest.mark.parametrize(
    ("input_dim", "dtype_policy"),
    [(4, "mixed_float16"), (None, "mixed_bfloat16")],
    indirect=["dtype_policy"],
)
def test_keeps_the_layer_contract_in_mixed_precision(input_dim, dtype_policy, tmp_path):
    layer = Embedding(input_dim, 5, "mean")
    checks.check_layer(layer, IDS, (3, 5), tmp_path)
    assert layer.embeddings.dtype == "float32"
    assert layer(IDS).dtype == dtype_policy.removeprefix("mixed_")


def test_has_the_weights_of_a_keras_layer():
    layer = Embedding(4, 3)
    layer.build((None, 2))
    weights = np.arange(12, dtype="float32").reshape(4, 3)
    layer.set_weights([weights])
    np.testing.assert_array_equal(layer.get_weights()[0], weights)
    assert layer.count_params() == 12
    assert [variable.path for variable in layer.trainable_variables] == [f"{layer.name}/embeddings"]


@pytest.mark.parametrize("wrap", [lambda layer: layer, keras_sparse.layers.DistributedEmbedding])
def test_summary_counts_rows_and_says_that_a_table_is_dynamic(wrap, capsys):
    static = Embedding(50, 3, "sum")
    keras.Sequential([keras.Input((2,), dtype="int64"), wrap(static)]).summary()
    assert "150" in capsys.readouterr().out
    layer = wrap(Embedding(None, 3, "sum"))
    model = keras.Sequential([keras.Input((2,), dtype="int64"), layer])
    model.summary()
    assert "0 (dynamic) " in capsys.readouterr().out
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    model.fit(np.array([[7, 2**40]]), np.ones((1, 3)), verbose=0)
    model.summary()
    assert "6 (dynamic) " in capsys.readouterr().out
    assert layer.count_params() == 6
    assert f"{layer.count_params()}" == "6"


def test_takes_a_keras_layer_with_its_weights():
    reference = keras.layers.Embedding(4, 3, "normal", mask_zero=True, name="words")
    expected = reference(IDS)
    layer = Embedding.from_keras(reference)
    np.testing.assert_array_equal(layer(IDS), expected)
    assert layer.name == "words"
    assert layer.mask_zero
    assert isinstance(layer.embeddings_initializer, keras.initializers.RandomNormal)


def test_takes_the_config_of_a_keras_layer():
    reference = keras.layers.Embedding(4, 3, trainable=False, dtype="mixed_float16")
    layer = Embedding.from_config(reference.get_config())
    assert (layer.input_dim, layer.output_dim, layer.trainable) == (4, 3, False)
    assert layer.compute_dtype == "float16"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("embeddings_constraint", "non_neg"),
        ("lora_rank", 2),
    ],
)
def test_names_what_it_cannot_take_from_a_keras_layer(option, value):
    config = keras.layers.Embedding(4, 3, **{option: value}).get_config()
    with pytest.raises(ValueError, match=f"`{option}` is an option of keras.layers.Embedding"):
        Embedding.from_config(config)
    words = f"`{option}` is an option.*Leave it out, or use the Keras layer. Received: {option}="
    with pytest.raises(ValueError, match=words):
        Embedding(4, 3, **{option: value})
    off = {"embeddings_constraint": None, "lora_rank": 0, "weights": None}
    assert Embedding(4, 3, **off).output_dim == 3


def test_begins_with_a_matrix_by_the_initializer_that_the_message_names():
    matrix = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    with pytest.raises(ValueError, match=r"keras\.initializers\.Constant\(matrix\)`.*weights=\["):
        Embedding(4, 3, weights=[matrix])
    layer = Embedding(4, 3, embeddings_initializer=keras.initializers.Constant(matrix))
    np.testing.assert_array_equal(layer(np.arange(4)), matrix)


def test_refuses_float_ids_of_a_dynamic_table_when_the_model_is_made():
    ids = keras.Input((2,))
    assert Embedding(4, 3)(ids).shape == (None, 2, 3)
    with pytest.raises(TypeError, match="floats do not hold every id there may be"):
        Embedding(None, 3)(ids)


def test_takes_no_unbuilt_keras_layer():
    with pytest.raises(ValueError, match=r"`layer` must be built.*Call it once first"):
        Embedding.from_keras(keras.layers.Embedding(4, 3))
    with pytest.raises(TypeError, match=r"`layer` must be a keras.layers.Embedding.*Dense"):
        Embedding.from_keras(keras.layers.Dense(3))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"input_dim": 0}, ValueError, "`input_dim` must be above 0. Received: input_dim=0"),
        ({"input_dim": 2.0}, TypeError, r"`input_dim` must be an integer: int\(2\.0\)\. Received"),
        ({"input_dim": 2.5}, TypeError, r"`input_dim` must be an integer\. Received: .*=2\.5 of"),
        (
            {"input_dim": None, "embeddings_initializer": len},
            ValueError,
            "initializer of a dynamic table must be one of .* give the table an `input_dim`.*: len",
        ),
        ({"output_dim": -1}, ValueError, "`output_dim` must be above 0"),
        ({"combiner": "max"}, ValueError, "`combiner` must be one of .*combiner='max'"),
        ({"out_of_range": "wrap"}, ValueError, "`out_of_range` must be one of"),
        ({"mask_zero": 1}, TypeError, "`mask_zero` must be True or False"),
        ({"seed": "a"}, TypeError, "`seed` must be an integer"),
        ({"dtype": "float16"}, ValueError, "`dtype` must be a policy with float32 variables"),
        ({"dtype": "float64"}, ValueError, "`dtype` must be a policy with float32 variables"),
    ],
)
def test_refuses_arguments_that_make_no_sense(arguments, error, words):
    with pytest.raises(error, match=words):
        Embedding(**{"input_dim": 4, "output_dim": 3, **arguments})


def test_masks_the_padding_as_keras_does():
    inputs = keras.Input((2,), dtype="int64")
    layer = Embedding(4, 3, mask_zero=True)
    pooled = keras.layers.GlobalAveragePooling1D()(layer(inputs))
    model = keras.Model(inputs, pooled)
    rows = layer.get_weights()[0]
    np.testing.assert_allclose(
        model(np.array([[1, 0], [2, 3]])), [rows[1], (rows[2] + rows[3]) / 2], rtol=1e-6
    )
    assert Embedding(4, 3).compute_mask(IDS) is None


def test_masks_a_sparse_tensor_in_any_order():
    ids = tf.SparseTensor([[1, 0], [0, 1]], [2, 1], [2, 2])
    mask = Embedding(4, 3, mask_zero=True)(ids)._keras_mask
    np.testing.assert_array_equal(mask, [[False, True], [True, False]])


@pytest.mark.parametrize(("combiner", "first"), [("sum", 5.0), ("mean", 2.5), ("sqrtn", 12.5**0.5)])
def test_leaves_the_padding_out_of_a_bag(combiner, first):
    layer = Embedding(4, 1, combiner, mask_zero=True)
    layer.build()
    layer.set_weights([np.array([[100.0], [2], [3], [4]])])
    outputs = layer(np.array([[1, 0, 2], [0, 0, 0]]))
    np.testing.assert_allclose(outputs, [[first], [0]], rtol=1e-6)
    assert layer.compute_mask(IDS) is None


def test_padding_has_no_row_and_no_gradient():
    layer = Embedding(None, 1, "sum", mask_zero=True)
    optimizer = keras_sparse.optimizers.SGD(1.0)
    weights = tf.Variable([[1.0, 1.0, 2.0]])
    with tf.GradientTape() as tape:
        # The second bag's gradient is not finite.
        outputs = layer(np.array([[5, 0, 6], [0, 0, 0]]), weights=tf.repeat(weights, 2, axis=0))
        loss = tf.reduce_sum(outputs * [[1.0], [np.inf]])
    grads = tape.gradient(loss, [layer.embeddings, weights])
    rows = layer(np.array([[5], [6]]))[:, 0].numpy()
    np.testing.assert_array_equal(grads[1], [[rows[0], 0, rows[1]]])
    optimizer.apply([grads[0]], [layer.embeddings])
    ((keys, records),) = layer.embeddings.export()
    assert dict(zip(keys.tolist(), records[:, 0], strict=True)) == {5: rows[0] - 1, 6: rows[1] - 2}
    assert layer.stats()["lookups"] == 4


def test_counts_what_happens_to_the_table():
    layer = Embedding(None, 3)
    layer(IDS)
    stats = layer.stats()
    assert (stats["rows"], stats["lookups"], stats["hits"]) == (0, 6, 0)
    layer.embeddings.import_([1], [[0.0, 0.0, 0.0]])
    layer(IDS)
    stats = layer.stats()
    assert (stats["rows"], stats["lookups"], stats["hits"]) == (1, 12, 2)


def test_names_table_position_and_value_of_an_id_outside_a_static_table():
    layer = Embedding(4, 3, name="cities")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cities.*\[1\] = 9"):
        layer(np.array([1, 9]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0\] = -1"):
        layer(np.array([-1]))


def test_reads_ids_outside_a_static_table_as_zeros_if_told_to():
    layer = Embedding(4, 3, "sum", "ones", out_of_range="zero")
    np.testing.assert_array_equal(layer(np.array([[1, 9], [-1, 4]])), [[1, 1, 1], [0, 0, 0]])
    assert layer.stats()["out_of_range_ids"] == 3


def arguments_of(layer_class):
    return set(inspect.signature(layer_class.__init__).parameters) - {"self", "kwargs"}


def test_a_config_has_every_argument():
    assert arguments_of(Embedding) <= Embedding(5, 4).get_config().keys()


def test_layers_of_several_tables_honour_or_refuse_every_argument():
    """They look up without calling the layers that they are given."""
    of_table = {"embeddings_initializer", *LAYER_OPTIONS}
    of_lookup = {"combiner", "mask_zero", "padding_id", "embeddings_regularizer"}
    rule = "an argument that TableConfigs does not honour must be refused by it, then named here"
    assert arguments_of(Embedding) == of_table | of_lookup, rule
