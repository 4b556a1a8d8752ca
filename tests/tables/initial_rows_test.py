import functools
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.tables import available_memory
from keras_sparse.tables import local_table
from keras_sparse.tables import native_table
from keras_sparse.tables.initial_rows import native_initial_rows
from keras_sparse.tables.initial_rows import resolve_seed
from keras_sparse.tables.table_part import TablePart

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
]
if "input_axes" in inspect.signature(keras.initializers.VarianceScaling).parameters:  # Keras 3.15
    NATIVE.append(
        keras.initializers.VarianceScaling(3.0, "fan_avg", input_axes=[1], output_axes=[0])
    )


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


class ByRows(keras.initializers.Initializer):
    """As DLRM: within 1 / sqrt(rows). Counts how often it is called."""

    def __init__(self, seed=None):
        self.seed = seed
        self.shapes = []

    def __call__(self, shape, dtype=None, **kwargs):
        self.shapes.append(tuple(shape))
        limit = shape[0] ** -0.5
        return keras.random.uniform(shape, -limit, limit, dtype, seed=3)

    def get_config(self):
        return {"seed": self.seed}


def row_numbers(shape, dtype=None):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape) / shape[0]


def in_parts(shape, dtype=None, partition_shape=None, partition_offset=(0, 0)):
    """`row_numbers`, of which a part can be made alone."""
    end = np.add(partition_offset, partition_shape or shape)
    columns = np.arange(partition_offset[1], end[1])
    ids = np.arange(partition_offset[0], end[0])
    return ((ids[:, None] * shape[1] + columns) / shape[0]).astype(dtype)


MANY_ROWS, CHUNK_BYTES = 4000, 24 * 1000

# What Keras calls once with the whole shape, and what it makes of a table of 4000 x 6.
WHOLE = {
    "by_rows": ByRows,
    "by_rows_with_a_seed": lambda: ByRows(5),
    "function": lambda: row_numbers,
    "lambda": lambda: lambda shape, dtype: row_numbers(shape, dtype),
    "in_parts": lambda: in_parts,
    "in_parts_bound": lambda: functools.partial(in_parts),
    "orthogonal": lambda: keras.initializers.Orthogonal(seed=1),
    "tensorflow": lambda: tf.random_uniform_initializer(seed=1),
    "no_signature": lambda: np.zeros,
    "identity": keras.initializers.Identity,
    "matrix": lambda: keras.initializers.Constant(row_numbers((MANY_ROWS, 6), "float32")),
}


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_an_initializer_makes_what_it_makes_for_keras(make, monkeypatch):
    for module in (local_table, native_table):
        monkeypatch.setattr(module, "CHUNK_BYTES", CHUNK_BYTES)
    theirs = keras.layers.Embedding(MANY_ROWS, 6, make())
    theirs.build()
    expected = theirs.get_weights()[0]
    np.testing.assert_array_equal(EmbeddingVariable(MANY_ROWS, 6, make()).numpy(), expected)
    for layer_class in (keras.layers.Embedding, Embedding):
        spread = DistributedEmbedding([layer_class(MANY_ROWS, 6, embeddings_initializer=make())])
        spread.build()
        np.testing.assert_array_equal(spread.get_weights()[0], expected)
    table = EmbeddingVariable(MANY_ROWS, 6, make())
    table.assign(np.zeros((MANY_ROWS, 6)))
    table.clear()
    np.testing.assert_array_equal(table.numpy(), expected)


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_parts_of_a_table_have_the_rows_of_the_whole_one(make, monkeypatch):
    monkeypatch.setattr(native_table, "CHUNK_BYTES", CHUNK_BYTES)
    expected = np.asarray(make()((MANY_ROWS, 6), dtype="float32"))
    for part in (
        TablePart("t", MANY_ROWS, 6, 2, 3),
        TablePart("t", MANY_ROWS, 6, 0, 6, shard=2, num_shards=3),
    ):
        rows = EmbeddingVariable(*part.shape, make(), part=part).numpy()
        np.testing.assert_array_equal(rows, part.cut(0, expected)[1])


def test_an_initializer_of_parts_is_never_asked_for_the_whole_table(monkeypatch):
    monkeypatch.setattr(native_table, "CHUNK_BYTES", CHUNK_BYTES)
    asked = []

    def remember(shape, dtype, partition_shape, partition_offset):
        asked.append((shape, partition_shape, partition_offset))
        return np.ones(partition_shape)

    EmbeddingVariable(2500, 6, remember)
    assert asked == [
        ((2500, 6), (rows, 6), (first, 0)) for first, rows in [(0, 1000), (1000, 1000), (2000, 500)]
    ]


def test_a_table_without_room_for_a_whole_array_names_the_way():
    part = TablePart("t", 2**40, 8, 0, 8, shard=0, num_shards=2**37)
    initializer = ByRows()
    with pytest.raises(ValueError, match=r"RandomUniform.*name both .* GiB, with .* available"):
        EmbeddingVariable(*part.shape, initializer, part=part)
    assert not initializer.shapes


def test_a_layers_seed_is_that_of_an_initializer_without_one():
    alone, again = (Embedding(8, 3, embeddings_initializer="orthogonal", seed=5) for _ in "ab")
    spread = DistributedEmbedding([Embedding(8, 3, embeddings_initializer="orthogonal", seed=5)])
    for layer in (alone, again, spread):
        layer.build()
    expected = keras.initializers.Orthogonal(seed=5)((8, 3))
    for layer in (alone, again, spread):
        np.testing.assert_array_equal(layer.get_weights()[0], expected)


def test_an_initializer_that_returns_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape it is asked for, \(3, 2\).*\(2, 2\)"):
        EmbeddingVariable(3, 2, lambda shape, dtype: np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("initializer", "received"),
    [
        ("identity", "Identity"),
        ("orthogonal", "Orthogonal"),
        (lambda shape, dtype: None, "<lambda>"),
        (keras.initializers.Constant([1.0, 2.0]), r"Constant of shape \(2,\)"),
    ],
)
def test_a_dynamic_table_names_the_initializers_it_takes(initializer, received):
    rule = r"one of.*Zeros.*RandomUniform.*LecunNormal.*`Constant` with one number"
    with pytest.raises(ValueError, match=f"{rule}.*Received: {received}$"):
        EmbeddingVariable(None, 2, initializer)


# The memory that is left is that of the system, or of the container, whichever is less.
SYSTEM = {"proc/meminfo": "MemTotal:  99 kB\nMemAvailable:  8 kB\n"}
VERSION_2 = {**SYSTEM, "proc/self/cgroup": "0::/pods/mine\n"}
VERSION_1 = {**SYSTEM, "proc/self/cgroup": "5:devices:/mine\n4:memory:/mine\n0::/\n"}


def group(folder, limit, usage, names=("memory.max", "memory.current"), **stat):
    files = {names[0]: f"{limit}\n", names[1]: f"{usage}\n"}
    files["memory.stat"] = "".join(f"{name} {value}\n" for name, value in stat.items())
    return {f"cgroup{folder}/{name}": text for name, text in files.items()}


OF_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
CASES = {
    "no answer": ({}, None),
    "system": (SYSTEM, 8192),
    "no limit": ({**VERSION_2, **group("/pods/mine", "max", 7)}, 8192),
    "limit": ({**VERSION_2, **group("/pods/mine", 5000, 1000)}, 4000),
    "files make room": (
        {**VERSION_2, **group("/pods/mine", 5000, 4000, active_file=9, inactive_file=700)},
        1700,
    ),
    "more than the system": ({**VERSION_2, **group("/pods/mine", 50000, 1000)}, 8192),
    "used up": ({**VERSION_2, **group("/pods/mine", 5000, 6000)}, 0),
    "group around it": (
        {**VERSION_2, **group("/pods/mine", "max", 0), **group("/pods", 3000, 1000)},
        2000,
    ),
    "seen from inside": ({**VERSION_2, **group("", 3000, 1000)}, 2000),
    "version 1": (
        {**VERSION_1, **group("/memory/mine", 5000, 2000, OF_1, total_inactive_file=500)},
        3500,
    ),
    "another controller": ({**VERSION_1, **group("/devices/mine", 5000, 2000, OF_1)}, 8192),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_is_what_the_system_and_the_groups_leave(files, expected, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(available_memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(available_memory, "_CGROUPS", tmp_path / "cgroup")
    assert available_memory.available_memory() == expected
