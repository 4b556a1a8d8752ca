"""Ragged and sparse inputs in SavedModels: what a server answers is what the model does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from layer_cases import export
from layer_cases import save_by_tensorflow

BAGS = tf.ragged.constant([[1, 2], [], [7, 8, 9]], dtype=tf.int64)
WEIGHTS = tf.ragged.constant([[1.0, -3], [], [0.5, 2, 1]])
PADDED = np.array([[1, 2, 3], [0, 0, 0], [3, 3, 3]])
TYPES = {
    "ragged": (("values", "row_splits"), lambda bags: bags),
    "sparse": (("indices", "values", "dense_shape"), lambda bags: bags.to_sparse()),
}


class Bags(keras.Model):
    """Pools ids of any form, in arguments that Keras knows nothing of."""

    def __init__(self, layer):
        super().__init__()
        self.rows = layer

    def call(self, ids, weights=None):
        return self.rows(ids, weights) if weights is not None else self.rows(ids)


def table():
    return Embedding(None, 4, "mean")


def words_of(kind=None):
    return keras.Input((None,), dtype="int64", name="words", **({kind: True} if kind else {}))


def declared(kind, form, layer=table, words=words_of):
    ids = words(kind)
    return keras.Model(ids, layer()(ids)), [form(BAGS)], ["words"]


def without_a_name(kind, form):
    ids = keras.Input((None,), dtype="int64", **{kind: True})
    return keras.Model(ids, table()(ids)), [form(BAGS)], [ids.name]


def of_several_inputs(kind, form):
    words, weights = (
        keras.Input((None,), dtype=dtype, name=name, **{kind: True})
        for name, dtype in (("words", "int64"), ("weights", "float32"))
    )
    dense = keras.Input((3,), dtype="int64", name="dense")
    outputs = {"a": table()(words, weights), "b": table()(dense)}
    inputs = {"words": form(BAGS), "weights": form(WEIGHTS), "dense": tf.constant(PADDED)}
    model = keras.Model({"words": words, "weights": weights, "dense": dense}, outputs)
    return model, [inputs], ["dense", "weights", "words"]


def of_a_list(kind, form):
    inputs = [keras.Input((None,), dtype="int64", name=n, **{kind: True}) for n in "ba"]
    layer = DistributedEmbedding([Embedding(50, 4, "sum"), Embedding(None, 2, "sqrtn")])
    return keras.Model(inputs, layer(inputs)), [[form(BAGS), form(BAGS + 1)]], ["b", "a"]


def sequential(kind, form):
    layers = [words_of(kind), table(), keras.layers.Dense(2)]
    return keras.Sequential(layers), [form(BAGS)], ["words"]


# What Keras knows nothing of is given to `export`.


def declared_dense(kind, form):
    return declared(kind, form, words=lambda kind: words_of())


def sequential_of_layers_alone(kind, form):
    return keras.Sequential([table(), keras.layers.Dense(2)]), [form(BAGS)], ["inputs"]


def subclassed(kind, form):
    return Bags(table()), [form(BAGS), form(WEIGHTS)], ["ids", "weights"]


def subclassed_by_keys(kind, form):
    class Features(Bags):
        def call(self, features):
            return self.rows([features["y"], features["x"]])

    layer = GroupEmbedding([Embedding(None, 4, "sum"), Embedding(50, 4, "mean")])
    return Features(layer), [{"y": form(BAGS), "x": tf.constant(PADDED)}], ["x", "y"]


def without_a_combiner(kind, form):
    return declared(kind, form, lambda: Embedding(None, 4))


def trained(model, inputs):
    """Rows that differ, so that an id too many shows."""
    model(*inputs)
    for number, variable in enumerate(model.variables):
        if isinstance(variable, keras_sparse.EmbeddingVariable):
            rows = np.random.default_rng(number).normal(size=(50, variable.output_dim))
            variable.import_(np.arange(50), rows.astype(np.float32))
    return model


GIVEN = (declared_dense, sequential_of_layers_alone, subclassed, subclassed_by_keys)


def spec_of(x):
    """With any batch size, and any number of ids a sample."""
    if isinstance(x, tf.RaggedTensor):
        return tf.RaggedTensorSpec((None, None), x.dtype)
    kind = tf.SparseTensorSpec if isinstance(x, tf.SparseTensor) else tf.TensorSpec
    return kind((None, None), x.dtype)


def components(inputs, kind, names):
    """The tensors of inputs by the names that a server has for them."""
    words, _ = TYPES[kind]
    feed = {}
    for name, each in zip(names, keras.tree.flatten(inputs), strict=True):
        if isinstance(each, tf.Tensor):
            feed[name] = each.numpy()
        else:
            feed |= {f"{name}_{word}": getattr(each, word).numpy() for word in words}
    return feed


def answers_of_a_session(path, feed):
    """What servers that are written in C++ answer."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(path))
        signature = graph.signature_def["serving_default"]
        assert signature.inputs.keys() == feed.keys()
        outputs = {name: each.name for name, each in signature.outputs.items()}
        feed = {signature.inputs[name].name: each for name, each in feed.items()}
        return session.run(outputs, feed)


def assert_same(answers, expected):
    if isinstance(expected, tf.RaggedTensor) and isinstance(answers, dict):
        expected = {name: getattr(expected, name) for name in ("row_splits", "values")}
    pairs = (tf.nest.flatten(each, expand_composites=True) for each in (answers, expected))
    for answer, each in zip(*pairs, strict=True):
        np.testing.assert_allclose(answer, each, rtol=1e-5, atol=1e-6)
        assert np.ptp(each) > 0


@pytest.mark.parametrize(
    ("kind", "save", "make"),
    [
        *(("ragged", export, make) for make in (declared, declared_dense, of_several_inputs)),
        *(("ragged", export, make) for make in (of_a_list, subclassed, without_a_combiner)),
        *(("ragged", export, make) for make in (sequential_of_layers_alone, subclassed_by_keys)),
        *(("sparse", export, make) for make in (declared, subclassed, subclassed_by_keys)),
        *(("ragged", save_by_tensorflow, make) for make in (without_a_name, sequential)),
        ("sparse", save_by_tensorflow, of_several_inputs),
    ],
)
def test_each_form_of_model_takes_what_it_was_called_with(make, kind, save, tmp_path):
    model, inputs, names = make(kind, TYPES[kind][1])
    expected = trained(model, inputs)(*inputs)
    if make in GIVEN:
        model.export(
            tmp_path, verbose=False, input_signature=keras.tree.map_structure(spec_of, inputs)
        )
    else:
        save(model, tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    feed = components(inputs, kind, names)
    answers = loaded.signatures["serving_default"](**keras.tree.map_structure(tf.constant, feed))
    assert_same(answers, expected)
    if make is subclassed:
        assert_same(answers_of_a_session(tmp_path, feed), expected)
    if save is export:
        assert_same(loaded.serve(*inputs), expected)
        with pytest.raises(TypeError):
            loaded.serve(*keras.tree.map_structure(lambda _: tf.constant(PADDED), inputs))


def served(model, path, *inputs, **options):
    model.export(path, verbose=False, **options)
    loaded = tf.saved_model.load(str(path))
    return loaded.serve(*inputs)


def test_a_signature_that_is_given_is_the_one_that_is_written(tmp_path):
    model = trained(Bags(table()), [tf.constant(PADDED)])
    ragged = [tf.RaggedTensorSpec((None, None), tf.int64)]
    bags = served(model, tmp_path / "ragged", BAGS, input_signature=ragged)
    assert_same(bags, model(BAGS))
    dense = [tf.TensorSpec((None, 3), tf.int64)]
    padded = served(model, tmp_path / "dense", tf.constant(PADDED), input_signature=dense)
    assert_same(padded, model(PADDED))
    archive = keras.export.ExportArchive()
    archive.track(model)
    with pytest.raises(TypeError, match="Unsupported x=RaggedTensorSpec"):  # of Keras
        archive.add_endpoint("shifted", model.call, ragged)
    shifted = tf.function(lambda words: model(words + 1), ragged)
    shifted(BAGS)  # Keras takes none that was never called
    archive.add_endpoint("shifted", shifted)
    archive.write_out(tmp_path / "archive", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "archive"))
    assert_same(loaded.shifted(BAGS), model(BAGS + 1))
    answers = answers_of_a_session(tmp_path / "archive", components([BAGS], "ragged", ["words"]))
    assert_same(answers, model(BAGS + 1))


@pytest.mark.parametrize("is_called_by_fit", [True, False])
def test_a_signature_that_is_not_known_is_an_error(is_called_by_fit, tmp_path):
    """Keras would write a dense one, of floats."""
    model = Bags(table())
    if is_called_by_fit:
        model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse")
        data = tf.data.Dataset.from_tensors((BAGS, np.ones((3, 4))))
        model.fit(data, verbose=0, shuffle=False)
    else:
        model(BAGS, weights=WEIGHTS)
    words = r"must be given.*RaggedTensorSpec.*Received: model 'bags.*None"
    for save in (export, save_by_tensorflow):
        with pytest.raises(ValueError, match=words):
            save(model, tmp_path / "model")
    ragged = [tf.RaggedTensorSpec((None, None), dtype) for dtype in (tf.int64, tf.float32)]
    answers = served(model, tmp_path / "given", BAGS, WEIGHTS, input_signature=ragged)
    assert_same(answers, model(BAGS, WEIGHTS))


def test_each_name_goes_with_its_input_in_whatever_structure(tmp_path):
    inputs = [keras.Input((None,), dtype="int64", name=name, ragged=True) for name in "ba"]
    model = keras.Model(inputs, [table()(each) for each in inputs])
    data = {"a": BAGS, "b": BAGS + 1}
    expected = trained(model, [data])(data)
    spec = tf.RaggedTensorSpec((None, None), tf.int64)
    model.export(tmp_path, verbose=False, input_signature=[{"a": spec, "b": spec}])
    answers = answers_of_a_session(tmp_path, components(data, "ragged", "ab"))
    assert_same(answers, {"output_0": expected[0], "output_1": expected[1]})


def test_row_splits_that_are_none_are_refused(tmp_path):
    model, inputs, _ = declared("ragged", TYPES["ragged"][1])
    trained(model, inputs).export(tmp_path, verbose=False)
    signature = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    splits = tf.constant([0, 2, 9], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError):
        signature(words_values=BAGS.values, words_row_splits=splits)
