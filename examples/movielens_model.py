"""The click model of the MovieLens example, and the batches it is trained on."""

import keras
import tensorflow as tf

import keras_sparse
import movielens_data


@keras.saving.register_keras_serializable(package="movielens")
class DotInteraction(keras.layers.Layer):
    """The dot product of each pair of features of a sample, as DLRM has it.

    Input shape: `(batch_size, num_features, output_dim)`.
    Output shape: `(batch_size, num_features * (num_features - 1) / 2)`.
    """

    def call(self, inputs):
        first, second = zip(*self._pairs(inputs.shape[1]), strict=True)
        dots = keras.ops.matmul(inputs, keras.ops.transpose(inputs, (0, 2, 1)))
        flat = keras.ops.reshape(dots, (-1, inputs.shape[1] ** 2))
        places = [i * inputs.shape[1] + j for i, j in zip(first, second, strict=True)]
        return keras.ops.take(flat, places, axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], len(self._pairs(input_shape[1])))

    def _pairs(self, num_features):
        return [(i, j) for i in range(num_features) for j in range(i)]


def make_model(vocabularies, output_dim=16, hidden_units=(64, 32), dropout=0.2, **options):
    """Builds a small DLRM with one table a feature.

    The tables of `movielens_data.KEYS` are dynamic: they take any 64-bit key, and a key that
    training never saw reads as its initial row. The other tables have a row for each word of the
    vocabulary. The first number of a row is the feature's own effect on the result; the rest takes
    part in the dot products and in the hidden layers. Each table gets the options, such as
    `row_dtype="bfloat16"`.
    """
    inputs = {name: keras.Input((), dtype="int64", name=name) for name in movielens_data.KEYS}
    inputs |= {name: keras.Input((), dtype="int32", name=name) for name in movielens_data.IDS}
    inputs["genres"] = keras.Input((None,), dtype="int32", ragged=True, name="genres")
    tables = {
        name: keras_sparse.layers.Embedding(
            None if name in movielens_data.KEYS else len(vocabularies[name]),
            1 + output_dim,
            combiner="mean" if name == "genres" else None,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=0.01),
            **options,
        )
        for name in inputs
    }
    tables = keras_sparse.layers.GroupEmbedding(tables, output_mode="stack", name="tables")
    rows = tables(inputs)  # of all features, (batch_size, num_features, 1 + output_dim)
    effects = keras.ops.sum(rows[:, :, 0], axis=1, keepdims=True)
    vectors = keras.layers.Dropout(dropout)(rows[:, :, 1:])
    hidden = [DotInteraction()(vectors), keras.layers.Flatten()(vectors)]
    hidden = keras.layers.Concatenate()(hidden)
    for units in hidden_units:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
        hidden = keras.layers.Dropout(dropout)(hidden)
    logit = keras.layers.Dense(1)(hidden) + effects
    return keras.Model(inputs, keras.layers.Activation("sigmoid", name="click")(logit))


def make_batches(ratings, positions, batch_size, shuffle=False):
    """Returns a `tf.data.Dataset` of `(features, labels)`: batches of the ratings at the positions.

    A whole batch is gathered at once, which is many times faster than batching single ratings.
    """
    columns = {name: tf.constant(column) for name, column in ratings.columns.items()}
    columns["genres"] = tf.RaggedTensor.from_row_splits(ratings.genre_ids, ratings.genre_splits)
    labels = tf.constant(ratings.labels)

    def gather(batch):
        features = {name: tf.gather(column, batch) for name, column in columns.items()}
        return features, tf.gather(labels, batch)

    dataset = tf.data.Dataset.from_tensor_slices(positions)
    if shuffle:
        dataset = dataset.shuffle(len(positions), seed=0)
    return dataset.batch(batch_size).map(gather, tf.data.AUTOTUNE).prefetch(2)


def table_stats(model):
    """Returns the statistics of each table of the model, by the name of its feature."""
    return model.get_layer("tables").stats()
