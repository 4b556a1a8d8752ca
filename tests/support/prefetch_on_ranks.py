"""A model whose tables are spread over ranks, and each rank's data, for `prefetch_lookups`."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from ranked_training import sorted_rows

BATCH, BATCHES, ROWS = 16, 12, 200


def make_model(storage=None, optimizer=None, width=4, **kwargs):
    """Two tables of three inputs: by columns or whole, of two inputs, and by rows.

    Args:
        storage: `StorageOption` of the table by rows. Defaults to `None`, memory alone.
        optimizer: Defaults to `None`, an Adagrad.
        width: Integer. Of the table by rows.
        kwargs: What the layer has besides.
    """
    keras.utils.set_random_seed(3)
    layers = [
        Embedding(ROWS, 6, "sum", seed=1, name="columns"),
        Embedding(None, width, seed=2, name="rows", storage=storage),
    ]
    inputs = [
        keras.Input((3,), dtype="int64"),
        keras.Input((2,), dtype="int64"),
        keras.Input((None,), dtype="int64", ragged=True),
    ]
    layer = DistributedEmbedding(
        layers, column_slice_threshold=3 * ROWS, input_table_map=[0, 1, 0], name="tables", **kwargs
    )
    first, second, third = layer(inputs)
    vectors = [first, keras.layers.Flatten()(second), third]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(vectors))
    model = keras.Model(inputs, outputs)
    optimizer = optimizer or keras_sparse.optimizers.Adagrad(0.1)
    model.compile(ksd.DistributedOptimizer(optimizer), loss="mse")
    return model


def make_data(seed=0, batches=BATCHES, most_keys=100, rank=None):
    """This rank's batches, which no other rank has.

    Args:
        seed: Integer.
        batches: Integer. How many.
        most_keys: Integer. How many keys of the table by rows there are.
        rank: Integer. Whose batches these are. Defaults to `None`, this rank's.
    """
    rng = np.random.default_rng(100 * seed + (ksd.rank() if rank is None else rank))
    samples = BATCH * batches
    lengths = rng.integers(0, 5, samples)
    ragged = tf.RaggedTensor.from_row_lengths(rng.integers(0, ROWS, lengths.sum()), lengths)
    keys = rng.integers(-most_keys // 2, most_keys // 2, (samples, 2))
    inputs = (rng.integers(0, ROWS, (samples, 3)), keys, ragged)
    labels = rng.normal(size=(samples, 1)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(BATCH)


class Reused:
    """A model that begins anew as often as it is asked for: what was traced for it stays.

    Args:
        in_steps: Boolean. Whether `step` trains it, not `fit`. Each of the two has an optimizer.
        kwargs: Of `make_model`.
    """

    def __init__(self, in_steps=False, **kwargs):
        self._model = make_model(**kwargs)
        variables = list(self._model.variables)
        if in_steps:
            self.step = step_of(self._model)
        else:
            self._model.optimizer.build(self._model.trainable_variables)
            variables += self._model.optimizer.variables
        is_table = [isinstance(each, keras_sparse.EmbeddingVariable) for each in variables]
        pairs = list(zip(variables, is_table, strict=True))
        self._tables = [each for each, yes in pairs if yes]
        self._start = [(each, each.numpy()) for each, yes in pairs if not yes]

    def begin(self):
        for table in self._tables:
            table.clear()
        for variable, value in self._start:
            variable.assign(value)
        return self._model


def step_of(model):
    """A training step, a function of a batch."""
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.5))
    optimizer.build(model.trainable_variables)

    @tf.function
    def train(inputs, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - labels) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return train


def prefetch_stats(model):
    """Of the lookups that ranks staged; all zeros on a rank without a table."""
    found = [each["prefetch"] for each in model.get_layer("tables").stats().values()]
    return next((each for each in found if each["staged"]), found[0] if found else None)


def num_used(model, num_staged, before=None):
    """Of as many lookups that were staged, how many steps have used, and then none has missed.

    Args:
        model: Each of its lookups since `before` was staged.
        num_staged: Integer.
        before: What `prefetch_stats` was. Defaults to `None`: nothing.

    Returns:
        Integer. All where ranks have nothing to exchange, or this one has no table to count for.
    """
    stats = prefetch_stats(model)
    if ksd.size() == 1 or stats is None:
        return num_staged
    counts = {name: stats[name] - (before or {}).get(name, 0) for name in stats}
    assert counts["staged"] == num_staged
    assert counts["used"] + counts["missed"] == num_staged
    assert counts["used"] + counts["dropped"] >= num_staged  # also some of an earlier stage
    assert stats["staleness_max"] == 0
    return counts["used"]


def state_of(model):
    """All that ranks train, as arrays."""
    state = []
    for each in model.variables:
        is_table = isinstance(each, keras_sparse.EmbeddingVariable)
        state += sorted_rows(each) if is_table else [each.numpy()]
    return state


def assert_same(model, other):
    """`other` is a model too, or the `state_of` one."""
    others = state_of(other) if isinstance(other, keras.Model) else other
    for ours, theirs in zip(state_of(model), others, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def model_around(layer, width=1):
    """A model that gives each table of a layer the same ids, and sums their rows."""
    ids = keras.Input((width,), dtype="int64")
    rows = keras.layers.Concatenate()(layer([ids] * layer.templates.num_inputs))
    return keras.Model(ids, keras.ops.sum(rows, axis=-1))
