"""Which lookups of a model a stage finds, and what it says where it cannot."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import prefetch_cases as cases
from keras_sparse import native
from keras_sparse import ops
from keras_sparse.data import prefetch_lookups
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from stages import keep_stages

IDS = np.arange(24).reshape(-1, 4)
LABELS = np.ones((6, 1), np.float32)
BATCHES = tf.data.Dataset.from_tensor_slices((IDS, LABELS)).batch(2)


def staged_of(model, select=None, batches=BATCHES):
    """The numbers of lookups that are staged in a training that uses some of them, by table."""
    model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
    with pytest.MonkeyPatch.context() as patch:
        stages = keep_stages(patch)
        ahead = prefetch_lookups(batches, model, 1, 2, "stale", select)
        model.fit(ahead, verbose=0, shuffle=False, callbacks=stages)
    stats = [table.stats()["prefetch"] for table in cases.tables_of(model)]
    assert all(each["used"] > 0 or each["staged"] == 0 for each in stats)
    # The first batch may be overtaken; no other lookup is missed.
    assert all(each["missed"] == each["dropped"] for each in stats)
    return [each["staged"] for each in stats]


def test_finds_layers_behind_others():
    ids = keras.Input((4,), dtype="int64")
    halved = keras.layers.Lambda(lambda each: each // 2)(ids)
    rows = keras.layers.Concatenate()(
        [Embedding(30, 2, "sum")(halved), Embedding(30, 3, "mean")(ids)]
    )
    assert staged_of(keras.Model(ids, keras.layers.Dense(1)(rows))) == [3, 3]


def test_finds_each_call_of_a_shared_layer():
    ids = keras.Input((4,), dtype="int64")
    layer = Embedding(30, 2, "sum")
    rows = keras.layers.Add()([layer(ids), layer(ids), layer(ids[:, :2])])
    assert staged_of(keras.Model(ids, keras.layers.Dense(1)(rows))) == [9]


def test_finds_the_columns_of_a_matrix():
    ids = keras.Input((4,), dtype="int64")
    tables = [Embedding(30, width, name=f"table_{width}") for width in (1, 2, 3, 4)]
    rows = keras_sparse.layers.GroupEmbedding(tables, output_mode="concat")(ids)
    # One lookup, of which the first table counts.
    assert staged_of(keras.Model(ids, keras.layers.Dense(1)(rows))) == [3, 0, 0, 0]


def test_finds_weights():
    ids = keras.Input((4,), dtype="int64")
    weights = keras.Input((4,))
    rows = Embedding(30, 2, "mean")(ids, weights=weights)
    model = keras.Model([ids, weights], keras.layers.Dense(1)(rows))
    inputs = (IDS, np.full(IDS.shape, 0.5, np.float32))
    batches = tf.data.Dataset.from_tensor_slices((inputs, LABELS)).batch(2)
    assert staged_of(model, batches=batches) == [3]


def test_finds_the_layers_of_models_in_models():
    ids = keras.Input((4,), dtype="int64")
    inner = keras.Model(ids, Embedding(30, 2, "sum")(ids))
    layers = [Embedding(30, 2, "sum"), keras.layers.Dense(2)]
    other = keras.Sequential([keras.Input((4,), dtype="int64"), *layers])
    outer_ids = keras.Input((4,), dtype="int64")
    rows = keras.layers.Add()([inner(outer_ids), other(outer_ids), inner(outer_ids + 1)])
    assert staged_of(keras.Model(outer_ids, keras.layers.Dense(1)(rows))) == [6, 3]


def test_finds_the_lookup_of_all_tables_of_a_distributed_embedding():
    inputs = [keras.Input((2,), dtype="int64"), keras.Input((2,), dtype="int64")]
    rows = DistributedEmbedding([Embedding(30, 2, "sum"), Embedding(40, 2, "sum")])(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))
    data = ((IDS[:, :2], IDS[:, 2:]), LABELS)
    batches = tf.data.Dataset.from_tensor_slices(data).batch(2)
    assert staged_of(model, batches=batches) == [3, 0], "one lookup, of which it is the first table"


def by_lookup(table, ids):
    (rows,) = native.lookup([table], [tf.reshape(ids, [-1])])
    return tf.reduce_sum(tf.reshape(rows, (-1, 4, 2)), axis=1)


def ragged_of(ids):
    """Ids of samples of 4, 3 ... of them, and a weight for each."""
    ids = tf.RaggedTensor.from_tensor(ids, lengths=4 - tf.range(tf.shape(ids)[0]))
    return ids, tf.cast(ids, tf.float32) + 0.5


# Functions of a table and dense ids (batch_size, 4), for the rows of each sample.
FUNCTIONS = {
    "lookup": by_lookup,
    "embedding_lookup": lambda table, ids: tf.reduce_sum(ops.embedding_lookup(table, ids), axis=1),
    "embedding_lookup_sparse, ragged": lambda table, ids: ops.embedding_lookup_sparse(
        table, ragged_of(ids)[0], None
    ),
    "embedding_lookup_sparse, weighted": lambda table, ids: ops.embedding_lookup_sparse(
        table, *ragged_of(ids), "sqrtn"
    ),
    "embedding_lookup_sparse, max_norm": lambda table, ids: ops.embedding_lookup_sparse(
        table, *ragged_of(ids), "sum", max_norm=0.01
    ),
    "safe_embedding_lookup_sparse": lambda table, ids: ops.safe_embedding_lookup_sparse(
        table, tf.sparse.from_dense(ids - 5), default_id=29
    ),
    "safe_embedding_lookup_sparse, weighted": lambda table, ids: ops.safe_embedding_lookup_sparse(
        table, *ragged_of(ids - 5), "sum"
    ),
}


class OwnLayer(keras.layers.Layer):
    """A user's layer that looks up by a function."""

    def __init__(self, function):
        super().__init__()
        self.supports_jit = False
        self.function = function
        self.table = keras_sparse.EmbeddingVariable(30, 2, seed=1)

    def call(self, ids):
        return self.function(self.table, ids)

    def compute_output_shape(self, shape):
        return (shape[0], 2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_finds_the_lookups_of_a_users_own_layer(name, monkeypatch):
    ids = keras.Input((4,), dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1)(OwnLayer(FUNCTIONS[name])(ids)))
    expected = model.predict(BATCHES, verbose=0)
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(BATCHES, model, 1, 2, "stale")
    np.testing.assert_array_equal(model.predict(ahead, verbose=0, callbacks=stages), expected)
    predicted = cases.prefetch_stats(model)
    assert predicted["used"] > 0
    assert (predicted["staged"], *staged_of(model)) == (3, 6)


class CountingLayer(OwnLayer):
    """Changes its state when it is called."""

    def __init__(self):
        super().__init__(by_lookup)
        self.calls = self.add_weight((), "zeros", "float32", trainable=False)
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, ids):
        self.calls.assign_add(1.0)
        return super().call(ids) + keras.random.uniform((1, 2), seed=self.seeds)


def test_leaves_the_state_of_layers_to_the_steps():
    weights = []
    for is_ahead in (False, True):
        keras.utils.set_random_seed(5)
        ids = keras.Input((4,), dtype="int64")
        layer = CountingLayer()
        model = keras.Model(ids, keras.layers.Dense(1)(layer(ids)))
        model.compile(keras_sparse.optimizers.SGD(0.1), loss="mse")
        layer.calls.assign(0.0)
        data = prefetch_lookups(BATCHES, model, 1, 2) if is_ahead else BATCHES
        model.fit(data, verbose=0, shuffle=False)
        assert layer.calls.numpy() == 3
        weights.append([layer.seeds.state.numpy(), layer.table.numpy()])
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.bags = Embedding(30, 2, "sum", name="bags")
        self.dense = keras.layers.Dense(1)

    def call(self, ids):
        return self.dense(self.bags(ids))


@pytest.mark.parametrize("by", ["layer", "name", "call"])
def test_select_says_what_feeds_the_layers_of_other_models(by):
    model = Subclassed()
    model(IDS)
    selects = {
        "layer": lambda x, y: {model.bags: x},
        "name": lambda x, y: {"bags": x},
        "call": lambda x, y: model.bags(x),
    }
    assert staged_of(model, selects[by]) == [3]


def test_select_may_call_a_layer_that_gives_a_dict():
    layers = {"u": Embedding(30, 2, "sum"), "v": Embedding(40, 2, "sum")}
    inputs = {name: keras.Input((2,), dtype="int64", name=name) for name in layers}
    tables = DistributedEmbedding(layers)
    rows = tables(inputs)
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([rows["u"], rows["v"]]))
    data = ({"u": IDS[:, :2], "v": IDS[:, 2:]}, LABELS)
    batches = tf.data.Dataset.from_tensor_slices(data).batch(2)
    select = lambda x, y: tables(x)  # noqa: E731
    assert staged_of(keras.Model(inputs, outputs), select, batches) == [3, 0]


def test_select_may_call_a_layer_and_name_another():
    layers = [Embedding(30, 2, "sum", name="called"), Embedding(40, 2, "sum", name="named")]
    inputs = keras.Input((4,), dtype="int64")
    rows = keras.layers.Concatenate()([layer(inputs) for layer in layers])
    model = keras.Model(inputs, keras.layers.Dense(1, name="score")(rows))

    def select(x, y):
        layers[0](x)
        return {"named": x, "score": y}  # an output of that name is none of a table

    assert staged_of(model, select) == [3, 3]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("films", "`select` must be a function of the components"),
        *[
            (each, r"`select` must take the components.* arguments \(.*\) for 2 components: ")
            for each in (lambda x: {}, lambda x, y, w: {}, lambda *, x: {})
        ],
    ],
)
def test_select_must_be_a_function_of_what_a_batch_has(select, words):
    model = keras.Sequential([keras.Input((4,), dtype="int64"), Embedding(30, 2, "sum")])
    with pytest.raises(TypeError, match=words):
        prefetch_lookups(BATCHES, model, select=select)


def test_elements_may_have_more_than_a_model_takes():
    model = keras.Sequential([keras.Input((4,), dtype="int64"), Embedding(30, 2, "sum")])
    data = (IDS, LABELS, LABELS, LABELS)
    batches = tf.data.Dataset.from_tensor_slices(data).batch(2)
    ahead = prefetch_lookups(batches, model, 1, 2, "stale")
    assert [len(element) for element in ahead] == [4, 4, 4]


def test_datasets_without_labels_are_for_prediction():
    model = keras.Sequential([keras.Input((4,), dtype="int64"), Embedding(30, 2, "sum")])
    batches = tf.data.Dataset.from_tensor_slices(IDS).batch(2)
    expected = model.predict(batches, verbose=0)
    ahead = prefetch_lookups(batches, model, 1, 2, "stale")
    np.testing.assert_array_equal(model.predict(ahead, verbose=0), expected)
    assert cases.prefetch_stats(model)["staged"] > 0


def test_says_what_it_cannot_do():
    model = cases.make_model()
    data = cases.make_data()
    with pytest.raises(TypeError, match=r"`dataset` must be a .*type list"):
        prefetch_lookups([1], model)
    with pytest.raises(ValueError, match=r"`mode` must be one of .*Received: mode='fast'"):
        prefetch_lookups(data, model, mode="fast")
    with pytest.raises(ValueError, match=r"`num_threads`.*Received: num_threads=0"):
        prefetch_lookups(data, model, num_threads=0)
    with pytest.raises(ValueError, match=r"`num_threads` must be at most `capacity`.*capacity=2"):
        prefetch_lookups(data, model, 3, 2)
    with pytest.raises(ValueError, match=r"`capacity` must be .*65"):
        prefetch_lookups(data, model, 1, 65)
    with pytest.raises(ValueError, match=r"`select` must say which inputs.*type Subclassed"):
        prefetch_lookups(data, Subclassed())
    ids = keras.Input((4,))
    with pytest.raises(ValueError, match="`model` must have layers with tables"):
        prefetch_lookups(data, keras.Model(ids, keras.layers.Dense(1)(ids)))
    with pytest.raises(
        ValueError, match=r"`select` must return inputs by layers.*\['of_a', 'of_b'\]"
    ):
        prefetch_lookups(data, model, select=lambda x, y: {"of_c": x["a"]})


def test_says_where_lookups_cannot_be_staged():
    model = Subclassed()
    model(IDS)
    in_a_function = tf.function(lambda x: model.bags(x))
    with pytest.raises(ValueError, match=r"`prefetch_lookups` must find lookups outside of a"):
        prefetch_lookups(BATCHES, model, select=lambda x, y: in_a_function(x))
    with pytest.raises(ValueError, match=r"`select` must return .*that leads to no lookup"):
        prefetch_lookups(BATCHES, model, select=lambda x, y: {})


def test_an_error_of_a_batch_is_that_of_its_step(monkeypatch):
    model = keras.Sequential([keras.Input((4,), dtype="int64"), Embedding(24, 1, "sum")])
    model.compile(keras_sparse.optimizers.SGD(), loss="mse")
    ids = IDS.copy()
    ids[4, 1] = 99
    batches = tf.data.Dataset.from_tensor_slices((ids, LABELS)).batch(2)
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(batches, model, 1, 3, "stale")
    words = r"batch 2 of prefetch_lookups: .*id must be in \[0, 24\).*ids\[1\] = 99"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        model.fit(ahead, verbose=0, shuffle=False, callbacks=stages)
