"""What takes layers computes what they compute alone, with the rows they have, or refuses them."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding

IDS = tf.constant([[1, 2, 0], [4, 4, 3]])


def in_scope(layer):
    ids = keras.Input((3,), dtype="int64")
    with group_embedding_scope():
        rows = layer(ids)
    return keras.Model(ids, rows)


def built_from_keras(layer):
    layer.build(None)
    return Embedding.from_keras(layer)


# What takes a layer, and gives a function of ids.
TAKERS = {
    "list": lambda layer: lambda ids: DistributedEmbedding([layer])([ids])[0],
    "dict": lambda layer: lambda ids: DistributedEmbedding({"a": layer})({"a": ids})["a"],
    "one": DistributedEmbedding,
    "group": lambda layer: lambda ids: GroupEmbedding([layer])([ids])[0],
    "localized": lambda layer: GroupEmbedding(layer, mode="localized"),
    "scope": in_scope,
    "from_keras": built_from_keras,
}


def fit_together(layer_class):
    """Parameters: each taker of layers that takes such a class."""
    no = "scope" if issubclass(layer_class, keras.layers.Embedding) else "from_keras"
    return [taker for taker in TAKERS if taker != no]


class Scaled(keras.layers.Layer):
    """A table of one's own, with the config of an embedding layer."""

    def __init__(self, input_dim, output_dim, **kwargs):
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim

    def call(self, ids):
        return 3.0 * tf.ones((*ids.shape, self.output_dim))

    def get_config(self):
        sizes = {"input_dim": self.input_dim, "output_dim": self.output_dim}
        return {**super().get_config(), **sizes}


def own(base, name):
    """A subclass with one method of its own, which does what that of the base does."""

    def method(self, *args, **kwargs):
        return getattr(base, name)(self, *args, **kwargs)

    return types.new_class("Own", (base,), {}, lambda body: body.update({name: method}))


class Mixin:
    def call(self, ids, **kwargs):
        return 3.0 * super().call(ids, **kwargs)


def with_own(base, name):
    """A layer one of whose methods is changed after it was made."""

    def make(*args, **kwargs):
        layer = base(*args, **kwargs)
        method = getattr(layer, name)
        setattr(layer, name, lambda *args, **kwargs: method(*args, **kwargs))
        return layer

    return make


BASES = [keras.layers.Embedding, Embedding]
METHODS = ("call", "__call__", "build", "compute_mask", "save_own_variables")
REFUSED = [
    *((base, own(base, name), name) for base in BASES for name in METHODS),
    *((base, type("Mixed", (Mixin, base), {}), "call") for base in BASES),
    *((base, with_own(base, name), name) for base in BASES for name in METHODS),
]


@pytest.mark.parametrize(("base", "make", "name"), REFUSED)
def test_refuses_a_layer_that_computes_more(base, make, name):
    for taker in fit_together(base):
        with pytest.raises((TypeError, ValueError), match=f"'films' .*with its own `{name}`"):
            TAKERS[taker](make(6, 2, name="films"))(IDS)


@pytest.mark.parametrize("taker", [taker for taker in TAKERS if taker != "scope"])
def test_refuses_a_layer_of_another_kind(taker):
    with pytest.raises(TypeError, match=r"keras\.layers\.Embedding.*Scaled"):
        TAKERS[taker](Scaled(6, 2))(IDS)


def described(base):
    """A subclass that says more of itself, and computes what its base does."""

    class Described(base):
        def __init__(self, *args, tower="user", **kwargs):
            super().__init__(*args, **kwargs)
            self.tower = tower

        def label(self):
            return f"{self.tower}: {self.name}"

        def get_config(self):
            return {**super().get_config(), "tower": self.tower}

    return Described


def count_up(shape, dtype=None):
    return np.arange(np.prod(shape), dtype=dtype or "float32").reshape(shape)


class CountUp(keras.initializers.Initializer):
    """Not registered, as `count_up`."""

    def __init__(self, step):
        self.step = step

    def __call__(self, shape, dtype=None):
        return count_up(shape, dtype) * self.step


def sum_of_squares(rows):
    return 0.1 * keras.ops.sum(keras.ops.square(rows))


class SumOfSquares(keras.regularizers.Regularizer):
    def __call__(self, rows):
        return sum_of_squares(rows)


OPTIONS = {
    "function": {"embeddings_initializer": count_up},
    "lambda": {"embeddings_initializer": lambda shape, dtype: count_up(shape, dtype)},
    "class": {"embeddings_initializer": CountUp(0.5)},
    "regularizer": {"embeddings_initializer": count_up, "embeddings_regularizer": sum_of_squares},
    "regularizer_class": {
        "embeddings_initializer": "ones",
        "embeddings_regularizer": SumOfSquares(),
    },
    "mask": {"embeddings_initializer": count_up, "mask_zero": True},
}
OURS = {
    "seeded": {"embeddings_initializer": keras.initializers.RandomUniform(seed=3)},
    "seed": {"seed": 5, "combiner": "mean"},
    "dynamic": {"seed": 5, "combiner": "sum", "admission": keras_sparse.CounterFilter(2)},
}


@pytest.mark.parametrize(
    ("base", "input_dim", "options"),
    [
        *[
            (base, 6, each)
            for base in (*BASES, *map(described, BASES))
            for each in OPTIONS.values()
        ],
        *[(Embedding, None if name == "dynamic" else 6, each) for name, each in OURS.items()],
    ],
)
def test_computes_what_the_layer_computes(base, input_dim, options):
    expected = base(input_dim, 2, **options)(IDS)
    for taker in fit_together(base):
        taken = TAKERS[taker](base(input_dim, 2, **options))
        np.testing.assert_array_equal(taken(IDS), expected, err_msg=taker)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("options", ["regularizer", "regularizer_class"])
def test_has_the_loss_that_the_layer_has(base, options):
    alone = base(6, 2, **OPTIONS[options])
    alone.build()
    for layer_class in (DistributedEmbedding, GroupEmbedding):
        taken = layer_class([base(6, 2, **OPTIONS[options])])
        taken.build()
        np.testing.assert_allclose(taken.losses, alone.losses, rtol=1e-6)


def test_what_no_file_can_name_is_an_error_of_keras_where_it_is_read(tmp_path):
    ids = keras.Input((3,), dtype="int64")
    rows = DistributedEmbedding(keras.layers.Embedding(6, 2, count_up))(ids)
    model = keras.Model(ids, rows)
    model.save_weights(tmp_path / "model.weights.h5")
    model.save(tmp_path / "model.keras")
    with pytest.raises((TypeError, ValueError), match="count_up"):
        keras.saving.load_model(tmp_path / "model.keras")
    loaded = keras.saving.load_model(
        tmp_path / "model.keras", custom_objects={"count_up": count_up}
    )
    np.testing.assert_array_equal(loaded(IDS), model(IDS))
