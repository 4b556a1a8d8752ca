import keras
import numpy as np
import pytest

from keras_sparse import EmbeddingVariable
from keras_sparse.initial_rows import native_initial_rows
from keras_sparse.initial_rows import resolve_seed
from keras_sparse.initial_rows import rows_in_chunks
from keras_sparse.layers import Embedding

NATIVE = [
    "zeros",
    "ones",
    keras.initializers.Constant(-3.0),
    "random_uniform",
    keras.initializers.RandomUniform(-2, 5),
    keras.initializers.RandomNormal(3.0, 0.5),
    keras.initializers.TruncatedNormal(3.0, 0.5),
    "glorot_uniform",
    "glorot_normal",
    "he_uniform",
    "he_normal",
    "lecun_uniform",
    "lecun_normal",
    keras.initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal"),
    keras.initializers.VarianceScaling(3.0, "fan_avg", input_axes=[1], output_axes=[0]),
]


@pytest.mark.parametrize("initializer", NATIVE)
def test_static_rows_have_the_distribution_of_the_keras_initializer(initializer):
    initializer = keras.initializers.get(initializer)
    initializer = type(initializer).from_config(initializer.get_config())  # seeded in this test
    rows = EmbeddingVariable(2000, 40, initializer).numpy()
    expected = np.asarray(initializer((2000, 40)))
    spread = expected.std()
    assert abs(rows.mean() - expected.mean()) < 0.03 * spread + 1e-7
    assert abs(rows.std() - spread) < 0.01 * spread + 1e-7
    # Of 80,000 values the ends are close too, and never past a hard one.
    assert abs(rows.min() - expected.min()) < 0.8 * spread + 1e-7
    assert abs(rows.max() - expected.max()) < 0.8 * spread + 1e-7


def test_a_dynamic_table_counts_its_width_as_both_fans():
    rows = native_initial_rows(keras.initializers.GlorotUniform(), None, 50, 0)
    assert rows.kind == "uniform"
    assert rows.b == -rows.a == pytest.approx((6 / (50 + 50)) ** 0.5)


@pytest.mark.parametrize("input_dim", [50, None])
def test_an_initial_row_follows_from_seed_and_key_alone(input_dim):
    ids = np.array([3, 7, 3])
    rows = np.asarray(Embedding(input_dim, 4, seed=5)(ids))
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_array_equal(Embedding(input_dim, 4, seed=5)(ids[::-1])[1], rows[1])
    np.testing.assert_array_equal(Embedding(99, 4, seed=5)(ids), rows)
    assert (np.asarray(Embedding(input_dim, 4, seed=6)(ids)) != rows).all()


def test_the_global_seed_makes_rows_reproducible():
    read = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        read.append(np.asarray(Embedding(None, 4)(np.array([3]))))
    np.testing.assert_array_equal(read[0], read[1])
    assert (read[0] != read[2]).all()


def test_two_layers_of_one_seedless_config_differ():
    config = Embedding(None, 4).get_config()
    ids = np.array([3])
    left, right = (Embedding.from_config(config)(ids) for _ in range(2))
    assert (np.asarray(left) != np.asarray(right)).all()


def test_the_initializers_seed_comes_before_the_tables():
    seeded = keras.initializers.RandomNormal(seed=9)
    assert resolve_seed(seeded, 5) == 9
    assert resolve_seed(keras.initializers.RandomNormal(), 5) == 5
    assert resolve_seed(keras.initializers.RandomNormal(), 2**64 - 1) == -1
    assert resolve_seed(keras.initializers.Zeros(), None) == 0
    generator = keras.random.SeedGenerator(3)
    drawn = [resolve_seed(keras.initializers.RandomNormal(seed=generator), None) for _ in "ab"]
    assert drawn[0] != drawn[1]


def test_a_static_table_takes_any_callable():
    def countdown(shape, dtype):
        return np.arange(shape[0] * shape[1], 0, -1).reshape(shape).astype(dtype)

    rows = EmbeddingVariable(3, 2, countdown).numpy()
    np.testing.assert_array_equal(rows, [[6, 5], [4, 3], [2, 1]])


def test_a_static_table_takes_other_keras_initializers_as_keras_does():
    identity = keras.initializers.Identity()
    np.testing.assert_array_equal(EmbeddingVariable(5, 5, identity).numpy(), np.eye(5))
    rows = EmbeddingVariable(8, 3, keras.initializers.Orthogonal(seed=1)).numpy()
    np.testing.assert_array_equal(rows, keras.initializers.Orthogonal(seed=1)((8, 3)))


def test_a_static_table_takes_a_constant_matrix():
    matrix = np.arange(6, dtype="float32").reshape(3, 2)
    table = EmbeddingVariable(3, 2, keras.initializers.Constant(matrix))
    np.testing.assert_array_equal(table.numpy(), matrix)
    table.assign(np.zeros((3, 2)))
    table.clear()
    np.testing.assert_array_equal(table.numpy(), matrix)


def test_chunks_of_a_seeded_initializer_differ():
    chunks = list(rows_in_chunks(keras.initializers.Orthogonal(seed=1), 8, 3, 3))
    assert [first for first, _ in chunks] == [0, 3, 6]
    assert [rows.shape for _, rows in chunks] == [(3, 3), (3, 3), (2, 3)]
    assert (chunks[0][1] != chunks[1][1]).all()


def test_chunks_of_a_matrix_are_its_rows():
    matrix = np.arange(14, dtype="float32").reshape(7, 2)
    chunks = rows_in_chunks(keras.initializers.Constant(matrix), 7, 2, 3)
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in chunks]), matrix)


def test_an_initializer_that_returns_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape it is asked for, \(3, 2\).*\(2, 2\)"):
        EmbeddingVariable(3, 2, lambda shape, dtype: np.zeros((2, 2)))


@pytest.mark.parametrize("initializer", ["identity", "orthogonal", lambda shape, dtype: None])
def test_a_dynamic_table_names_the_initializers_it_takes(initializer):
    with pytest.raises(ValueError, match=r"must be one of.*Zeros.*RandomUniform.*LecunNormal"):
        EmbeddingVariable(None, 2, initializer)
