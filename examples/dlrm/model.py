"""MLPerf's DLRM: a bottom MLP, a table a category, dot products of pairs, a top MLP."""

import math

import keras
import numpy as np

import keras_sparse
from examples.dlrm.raw_lines import NUM_CATEGORICAL
from examples.dlrm.raw_lines import NUM_NUMERICAL

SEED = 0


@keras.saving.register_keras_serializable(package="dlrm")
class DotInteraction(keras.layers.Layer):
    """The dot products of all pairs of a sample's vectors, and behind them the first vector.

    Input shape: `(batch_size, num_vectors, width)`.
    Output shape: `(batch_size, num_vectors * (num_vectors - 1) / 2 + width)`.
    """

    def call(self, vectors):
        num_vectors = vectors.shape[1]
        left, right = np.tril_indices(num_vectors, -1)
        dots = keras.ops.matmul(vectors, keras.ops.transpose(vectors, (0, 2, 1)))
        flat = keras.ops.reshape(dots, (-1, num_vectors**2))
        pairs = keras.ops.take(flat, left * num_vectors + right, axis=1)
        return keras.ops.concatenate([pairs, vectors[:, 0]], axis=1)

    def compute_output_shape(self, input_shape):
        _, num_vectors, width = input_shape
        return (input_shape[0], num_vectors * (num_vectors - 1) // 2 + width)


def make_model(
    num_ids,
    embedding_dim=128,
    bottom=(512, 256),
    top=(1024, 1024, 512, 256),
    storage_of=lambda num_ids: None,
    table_options=None,
    **options,
):
    """Builds the model, whose output is a logit.

    Args:
        num_ids: List: how many ids each category has.
        embedding_dim: Integer. The width of rows, and of the bottom MLP's last layer.
        bottom, top: The units of hidden layers.
        storage_of: Function that gives the `StorageOption` of a table of so many ids, or `None`.
        table_options: Dict of arguments of each `keras_sparse.layers.Embedding`, such as
            `row_dtype`. Defaults to `None`.
        **options: Of `keras_sparse.layers.GroupEmbedding`, such as `strategy` of where tables are.
    """
    numerical = keras.Input((NUM_NUMERICAL,), name="numerical")
    ids = keras.Input((NUM_CATEGORICAL,), dtype="int32", name="ids")
    tables = keras_sparse.layers.GroupEmbedding(
        [
            make_table(i, each, embedding_dim, storage_of(each), **(table_options or {}))
            for i, each in enumerate(num_ids)
        ],
        output_mode="stack",
        name="tables",
        **options,
    )
    first = numerical
    for units in (*bottom, embedding_dim):
        first = dense(units, "relu")(first)
    first = keras.layers.Reshape((1, embedding_dim))(first)
    hidden = DotInteraction()(keras.layers.Concatenate(axis=1)([first, tables(ids)]))
    for units in top:
        hidden = dense(units, "relu")(hidden)
    return keras.Model({"numerical": numerical, "ids": ids}, dense(1)(hidden))


def make_table(number, num_ids, embedding_dim, storage=None, seed=SEED, **options):
    """A row for each id. A table with lower tiers takes any id, and has rows once trained."""
    most = 1 / math.sqrt(num_ids)
    return keras_sparse.layers.Embedding(
        num_ids if storage is None or not storage.lower_tiers else None,
        embedding_dim,
        embeddings_initializer=keras.initializers.RandomUniform(-most, most),
        storage=storage,
        seed=seed + number,
        name=f"cat_{number}",
        **options,
    )


def dense(units, activation=None):
    return keras.layers.Dense(
        units,
        activation,
        kernel_initializer="glorot_normal",
        bias_initializer=keras.initializers.RandomNormal(stddev=math.sqrt(1 / units)),
    )
