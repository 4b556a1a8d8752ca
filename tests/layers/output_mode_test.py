"""`output_mode` joins what a list has, bit for bit, and trains the same."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkpoint_cases
import checks
import keras_sparse
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding

RNG = np.random.default_rng(1)
ONE = [RNG.integers(0, 20, 5) for _ in range(3)]
BAGS = [RNG.integers(0, 20, (5, 2)) for _ in range(3)]
RAGGED = [
    tf.ragged.constant([[1], [2, 3], [], [3, 3, 9], [1]], row_splits_dtype=tf.int64),
    tf.ragged.constant([[], [2], [], [0], [19, 1]], row_splits_dtype=tf.int64),
    tf.ragged.constant([[7], [7], [7], [7], []], row_splits_dtype=tf.int64),
]
ALIKE = [RAGGED[0], RAGGED[0] + 1, RAGGED[0] + 2]
SPARSE = [tf.sparse.from_dense(each) for each in BAGS]
WEIGHTS = [tf.constant(RNG.random((5, 2)), tf.float32) for _ in range(3)]
MATRIX = np.stack(ONE, axis=1)

INPUTS = {
    "one": (None, ONE, None),
    "sequences": (None, BAGS, None),
    "weighted_sequences": (None, BAGS, WEIGHTS),
    "dense": ("sum", BAGS, None),
    "bags_of_one": ("mean", [each[:, None] for each in ONE], None),
    "weighted": ("mean", BAGS, [WEIGHTS[0], None, WEIGHTS[2]]),
    "ragged": ("sqrtn", RAGGED, None),
    "ragged_sequences": (None, ALIKE, None),
    "sparse": ("mean", SPARSE, None),
    "mixed": ("sum", [BAGS[0], RAGGED[1], SPARSE[2]], None),
    "three_axes": ("sum", [each[:, None].repeat(3, 1) for each in BAGS], None),
    "matrix": (None, MATRIX, None),
    "int32_matrix": (None, MATRIX.astype("int32"), None),
    "pooled_matrix": ("sum", MATRIX, None),
    "empty_matrix": (None, MATRIX[:0], None),
    "empty": ("sum", [each[:0] for each in BAGS], None),
}


def layers(combiner, widths, kind=None):
    input_dim = None if kind == "dynamic" else 20
    return [Embedding(input_dim, width, combiner, seed=i) for i, width in enumerate(widths)]


def joined(outputs, mode):
    if isinstance(outputs[0], tf.RaggedTensor):
        return outputs[0].with_values(joined([each.values for each in outputs], mode))
    return tf.concat(outputs, -1) if mode == "concat" else tf.stack(outputs, -2)


def train(layer, inputs, weights, optimizer, mode, in_function):
    """Returns outputs, gradients of weights and tables of some steps."""

    def step():
        trained = [each for each in weights or () if each is not None]
        with tf.GradientTape() as tape:
            tape.watch(trained)
            outputs = layer(inputs, weights=weights)
            if layer.output_mode == "list":
                outputs = joined(outputs, mode)
            flat = outputs.flat_values if isinstance(outputs, tf.RaggedTensor) else outputs
            factors = tf.reshape(tf.range(tf.size(flat), dtype=flat.dtype), tf.shape(flat))
            loss = tf.reduce_sum(flat * factors)
        variables = layer.trainable_variables
        grads = tape.gradient(loss, [*variables, *trained])
        optimizer.apply(grads[: len(variables)], variables)
        return flat, grads[len(variables) :]

    layer(inputs, weights=weights)
    optimizer.build(layer.trainable_variables)
    run = tf.function(step) if in_function else step
    steps = [tf.nest.map_structure(np.array, run()) for _ in range(2)]
    return steps, [checks.table_content(table) for table in layer.tables]


MODES = ["concat", "stack", "stack", "concat"]
KINDS = ["static", "static", "dynamic", "dynamic"]


# A stack is what is made for a concatenation, in another shape.
@pytest.mark.parametrize(
    ("case", "mode", "kind"),
    [
        *zip(INPUTS, itertools.cycle(MODES), itertools.cycle(KINDS), strict=False),
        ("ragged_sequences", "stack", "dynamic"),
    ],
)
def test_trains_as_a_list_does(case, mode, kind):
    combiner, inputs, weights = INPUTS[case]
    widths = (4, 4, 4) if mode == "stack" else (4, 1, 8)
    ends = []
    for output_mode in ("list", mode):
        layer = GroupEmbedding(layers(combiner, widths, kind), output_mode=output_mode)
        optimizer = keras_sparse.optimizers.Adagrad(0.1)
        ends.append(train(layer, inputs, weights, optimizer, mode, in_function=kind == "static"))
    tf.nest.map_structure(np.testing.assert_array_equal, ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


@pytest.mark.parametrize("mode", ["concat", "stack"])
def test_a_functional_model_is_saved_loaded_and_trained(mode, tmp_path):
    """Of a dict of inputs, in the order of the layer's names, one of them shared by two."""
    tables = {"user": Embedding(20, 4, "mean", seed=1), "item": Embedding(None, 4, "sum", seed=2)}
    layer = DistributedEmbedding(
        tables, input_table_map={"b": "item", "a": "user", "c": "item"}, output_mode=mode
    )
    inputs = {name: keras.Input((2,), dtype="int64", name=name) for name in "abc"}
    outputs = layer(inputs)
    assert outputs.shape == ((None, 12) if mode == "concat" else (None, 3, 4))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(outputs)))
    data = dict(zip("abc", BAGS, strict=True))
    model.compile(keras_sparse.optimizers.Adam(0.1), "mse", run_eagerly=True)
    model.fit(data, np.ones((5, 1)), epochs=2, verbose=0)
    looked_up = layer({name: data[name] for name in "cab"})
    alone = DistributedEmbedding.from_config({**layer.get_config(), "output_mode": "list"})
    alone.build()
    for mine, other in zip(layer.tables, alone.tables, strict=True):
        keys, records = next(iter(mine.export()))
        other.import_(keys, records[:, :4])
    expected = alone(data)
    np.testing.assert_array_equal(looked_up, joined([expected[name] for name in "bac"], mode))
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(model.predict(data, verbose=0), loaded.predict(data, verbose=0))
    assert checkpoint_cases.content(loaded) == checkpoint_cases.content(model)


def test_a_functional_model_takes_a_matrix():
    matrix = keras.Input((3,), dtype="int32")
    outputs = GroupEmbedding(layers(None, (4, 1, 8)), output_mode="concat")(matrix)
    assert outputs.shape == (None, 13)
    model = keras.Model(matrix, outputs)
    parts = model.layers[-1].get_weights()
    rows = [table[ids] for table, ids in zip(parts, ONE, strict=True)]
    np.testing.assert_array_equal(model.predict(MATRIX, verbose=0), np.concatenate(rows, 1))


@pytest.mark.parametrize("dtype_policy", ["mixed_float16", "mixed_bfloat16"], indirect=True)
def test_outputs_have_the_compute_dtype(dtype_policy):
    compute = dtype_policy.removeprefix("mixed_")
    outputs = [
        GroupEmbedding(layers("sum", (4, 4, 4)), output_mode=mode)(BAGS)
        for mode in ("list", "stack")
    ]
    assert outputs[1].dtype == compute
    np.testing.assert_array_equal(tf.stack(outputs[0], 1), outputs[1])


def masked_inputs():
    return [np.array([[1, 0, 3], [4, 0, 0]]), np.array([[1, 2, 0], [3, 0, 0]])]


def test_masks_are_joined_as_keras_concatenates_them():
    inputs = masked_inputs()
    tables = [Embedding(9, 2, mask_zero=True) for _ in inputs]
    layer = GroupEmbedding(tables, output_mode="concat")
    given = [keras.layers.Embedding(9, 2, mask_zero=True)(each) for each in inputs]
    masks = [keras.ops.not_equal(each, 0) for each in inputs]
    expected = keras.layers.Concatenate().compute_mask(given, masks)
    np.testing.assert_array_equal(layer.compute_mask(inputs), expected)


@pytest.mark.parametrize("mode", ["concat", "stack"])
def test_a_functional_model_has_the_mask(mode):
    inputs = [keras.Input((3,), dtype="int64") for _ in range(2)]
    tables = [Embedding(9, 2, mask_zero=True) for _ in inputs]
    outputs = GroupEmbedding(tables, output_mode=mode)(inputs)
    model = keras.Model(inputs, outputs)
    assert model(masked_inputs()).shape == ((2, 3, 4) if mode == "concat" else (2, 3, 2, 2))


def test_attention_over_stacked_inputs_leaves_out_what_each_masks():
    matrix = np.array([[0, 0, 1], [1, 0, 3], [4, 7, 5]])  # as many samples as inputs
    layer = GroupEmbedding(
        [Embedding(9, 2, mask_zero=True, seed=i) for i in range(3)], output_mode="stack"
    )
    np.testing.assert_array_equal(layer.compute_mask(matrix), matrix != 0)
    pooled = keras.layers.GlobalAveragePooling1D()(layer(matrix))
    rows = np.array(layer(matrix))
    expected = [rows[i, matrix[i] != 0].mean(0) for i in range(3)]
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def look_up(inputs, mode="concat", combiner=None):
    GroupEmbedding(layers(combiner, (4, 8)), output_mode=mode)(inputs)


OTHER_SHAPES = "must have the same shape but for their width.*"
A_MATRIX = "a dense matrix with one column per input"
OTHER_DTYPES = [Embedding(4, 8), Embedding(4, 8, dtype="mixed_float16")]
DEEP = [
    tf.ragged.constant([[[1], [2, 3]], [[4]]]),
    tf.ragged.constant([[[1, 2], [3]], [[4]]]),
]


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (look_up, (ONE, "stack"), r'`output_mode="stack"` must be that of tables.*\[4, 8\]'),
        (look_up, (ONE, "sum"), "`output_mode` must be one of"),
        (
            lambda: GroupEmbedding(Embedding(4, 8), output_mode="concat"),
            (),
            "must be used with a list or dict of layers of one compute dtype.*one layer",
        ),
        (
            lambda: GroupEmbedding(OTHER_DTYPES, output_mode="concat"),
            (),
            r"one compute dtype.*\['float16', 'float32'\]",
        ),
        (look_up, ([ONE[0], BAGS[1]],), rf"{OTHER_SHAPES}\(5, 4\), \(5, 2, 8\)"),
        (
            look_up,
            ([keras.Input((each,), dtype="int64") for each in (2, 3)],),
            rf"{OTHER_SHAPES}\(None, 2, 4\), \(None, 3, 8\)",
        ),
        (
            look_up,
            ([BAGS[0], BAGS[1][:3]], "concat", "sum"),
            rf"{OTHER_SHAPES}\(5, 4\), \(3, 8\)",
        ),
        (look_up, (MATRIX, "list"), rf"{A_MATRIX}, \(batch_size, 2\).*\(5, 3\)"),
        (
            look_up,
            (tf.sparse.from_dense(MATRIX[:, :2]), "list"),
            rf"{A_MATRIX}.*SparseTensor of shape \(5, 2\)",
        ),
        (look_up, (RAGGED[:2],), "must have the same row_splits"),
        (look_up, ([RAGGED[0], BAGS[1]],), r"must all be ragged, or none.*\[0\] of 2"),
        (
            keras_sparse.ops.group_embedding_lookup,
            ([], [], "mod", None, None, "concat"),
            "must be that of at least one table",
        ),
        (
            lambda: keras_sparse.ops.group_embedding_lookup(
                [keras_sparse.EmbeddingVariable(9, 2)] * 2, DEEP, output_mode="concat"
            ),
            (),
            "must have the same row_splits",
        ),
    ],
)
def test_what_cannot_be_joined_is_an_error(function, arguments, words):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=f"(?s){words}"):
        function(*arguments)


@pytest.mark.parametrize("dtype_policy", ["float32", "mixed_bfloat16"], indirect=True)
@pytest.mark.parametrize("mode", ["concat", "stack"])
def test_a_matrix_in_a_step_is_read_by_one_op_and_written_by_one(mode, dtype_policy):
    layer = GroupEmbedding(layers(None, (4, 4, 4)), output_mode=mode)
    layer(MATRIX)
    optimizer = keras_sparse.optimizers.SGD(0.1)
    optimizer.build(layer.trainable_variables)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer(ids)))
        optimizer.apply(tape.gradient(loss, layer.trainable_variables))
        return loss

    made = step.get_concrete_function(tf.TensorSpec((5, 3), tf.int64)).graph.get_operations()
    of_rows = {
        each.type
        for each in made
        if any(t.dtype.is_floating and t.shape[:1] == [5] for t in each.outputs)
    }
    # Those of the loss, the lookup, and reshapes, which copy nothing.
    assert of_rows <= {"KerasSparseLookup", "Sin", "Cos", "Mul", "Tile", "Reshape"}
    types = [each.type for each in made]
    assert types.count("KerasSparseLookup") == types.count("KerasSparseApply") == 1
    is_on_gpu = keras_sparse.StorageOption().is_on_gpu  # all tables of this run
    assert types.count("Transpose") == is_on_gpu
    assert types.count("KerasSparseIdColumns") == (not is_on_gpu)
    assert "KerasSparseMergeGradients" not in types


@pytest.mark.parametrize("combiners", [(None, None, None), ("sum",) * 3, (None, "mean", None)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32"])
def test_a_matrix_of_any_dtype_has_an_input_a_column(dtype, combiners):
    tables = [Embedding(20, 4, combiner, seed=i) for i, combiner in enumerate(combiners)]
    layer = GroupEmbedding(tables, output_mode="concat")
    outputs = layer(tf.constant(MATRIX.astype(dtype)))
    rows = [table[ids] for table, ids in zip(layer.get_weights(), ONE, strict=True)]
    np.testing.assert_array_equal(outputs, np.concatenate(rows, axis=1))


def test_a_rank_without_tables_gives_a_matrix_without_columns():
    templates = GroupEmbedding(layers(None, (4, 8))).templates
    assert templates.given(np.zeros((5, 0), "int64"), "inputs", []) == []


@pytest.mark.parametrize("is_on_gpu", [False, True])
def test_tables_in_gpu_memory_are_sent_the_matrix_whole(is_on_gpu, monkeypatch):
    monkeypatch.setattr(keras_sparse.StorageOption, "is_on_gpu", is_on_gpu)
    monkeypatch.setattr("keras_sparse.native.check_gpu", lambda storage_type: None)
    templates = GroupEmbedding(layers(None, (4, 1, 8))).templates

    @tf.function
    def split(matrix):
        return templates.given(matrix, "inputs", range(3))

    for column, expected in zip(split(MATRIX), ONE, strict=True):
        np.testing.assert_array_equal(column, expected)
    made = split.get_concrete_function(tf.TensorSpec((5, 3), tf.int64)).graph.get_operations()
    assert any(each.type == "KerasSparseIdColumns" for each in made) != is_on_gpu


def test_an_id_of_a_matrix_outside_of_its_table_is_named():
    layer = GroupEmbedding([Embedding(20, 4, name=name) for name in "ab"], output_mode="concat")
    ids = np.array([[3, 4], [19, 5], [0, 20]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"/b'.*ids\[2\] = 20"):
        layer(ids)


@pytest.mark.parametrize("mode", ["concat", "stack"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_functions_have_the_mode_too(is_sparse, mode):
    tables = [keras_sparse.EmbeddingVariable(20, 4, seed=i) for i in range(3)]
    if is_sparse:
        args = (keras_sparse.ops.group_embedding_lookup_sparse, tables, SPARSE, ["mean"] * 3)
    else:
        args = (keras_sparse.ops.group_embedding_lookup, tables, BAGS)
    lookup = functools.partial(*args)
    np.testing.assert_array_equal(lookup(output_mode=mode), joined(lookup(), mode))
    with pytest.raises(ValueError, match="`params_num_per_group` must be None"):
        lookup(output_mode=mode, params_num_per_group=2)


def test_a_matrix_at_each_time_step():
    matrix = np.random.default_rng(1).integers(0, 20, (5, 3))
    layer = GroupEmbedding([Embedding(20, width) for width in (4, 1, 8)], output_mode="concat")
    steps = keras.Input((4, 3), dtype="int64")
    model = keras.Model(steps, keras.layers.TimeDistributed(layer)(steps))
    assert model.output_shape == (None, 4, 13)
    ids = np.stack([matrix] * 4, axis=1)
    expected = np.stack([layer(matrix)] * 4, axis=1)
    np.testing.assert_array_equal(model.predict(ids, verbose=0), expected)


@pytest.mark.parametrize(
    ("embeddings", "mode", "shapes", "expected"),
    [
        ([4, 4], "stack", (7, 2), (7, 2, 4)),
        ([4, 1], "concat", [(None,), (None,)], (None, 5)),
        ([4, 1], "list", [(7,), (7, 2)], [(7, 4), (7, 2, 1)]),
        ({"a": 4, "b": 1}, "list", {"a": (7,), "b": (7,)}, {"a": (7, 4), "b": (7, 1)}),
        (4, "list", (None, 3), (None, 3, 4)),
    ],
    ids=["matrix", "concat", "list", "dict", "one_layer"],
)
def test_shapes_of_outputs_are_known_without_inputs(embeddings, mode, shapes, expected):
    tables = keras.tree.map_structure(lambda width: Embedding(20, width), embeddings)
    assert GroupEmbedding(tables, output_mode=mode).compute_output_shape(shapes) == expected
