"""Whole tables out of a layer and into it, whatever part of them a rank has."""

import pathlib

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies as st

import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.tables import whole_tables
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding

SIZES = [(7, 4), (3, 1), (12, 5)]
OPTIONS = [
    {},
    {"row_slice_threshold": 1},
    {"column_slice_threshold": 20},
    {"data_parallel_threshold": 30, "strategy": "memory_balanced"},
]
each_placement = pytest.mark.parametrize("options", OPTIONS, ids=str)


def make(sizes, options):
    layer = DistributedEmbedding([keras.layers.Embedding(*size) for size in sizes], **options)
    layer.build()
    return layer


def numbered(sizes):
    """Tables of numbers that are all different."""
    return [
        np.arange(rows * width, dtype="float32").reshape(rows, width) + 1000 * i
        for i, (rows, width) in enumerate(sizes)
    ]


def assert_equal(ours, theirs):
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)


@each_placement
def test_gives_what_was_set(options):
    layer = make(SIZES, options)
    layer.set_weights(numbered(SIZES))
    assert_equal(layer.get_weights(all_ranks=True), numbered(SIZES))
    of_rank_0 = layer.get_weights()
    assert_equal(of_rank_0, numbered(SIZES) if ksd.rank() == 0 else [None] * 3)


@st.composite
def plans(draw):
    sizes = draw(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=5))
    thresholds = ("column_slice_threshold", "row_slice_threshold", "data_parallel_threshold")
    options = {name: draw(st.none() | st.integers(1, 120)) for name in thresholds}
    strategies = ("basic", "memory_balanced", "memory_optimized", "auto")
    return (
        sizes,
        {**options, "strategy": draw(st.sampled_from(strategies))},
        draw(st.integers(4, 90)),
    )


# Slices that a rank has two of become one, which is wider than the others.
@hypothesis.settings(max_examples=6, deadline=None, derandomize=True, database=None)
@hypothesis.example(([(187, 4), (152, 4)], {"column_slice_threshold": 20}, 512))
@hypothesis.given(plan=plans())
def test_gives_what_was_set_for_any_plan(plan):
    sizes, options, chunk_bytes = plan
    layer = make(sizes, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_tables, "CHUNK_BYTES", chunk_bytes)
        layer.set_weights(numbered(sizes))
        assert_equal(layer.get_weights(all_ranks=True), numbered(sizes))


def test_reads_files(tmp_path):
    folder = pathlib.Path(broadcast_object(str(tmp_path), 0, "folder"))
    weights = numbered(SIZES)
    if ksd.rank() == 0:
        np.save(folder / "1.npy", weights[1])
    layer = make(SIZES, {"row_slice_threshold": 20})
    broadcast_object(None, 0, "written")
    layer.set_weights([weights[0].astype("float64"), str(folder / "1.npy"), weights[2]])
    assert_equal(layer.get_weights(all_ranks=True), weights)


def wrong_weights():
    right = numbered(SIZES)
    yield right[:2], "with the rows of each table, 3. Received: 2"
    yield [*right[:2], right[2].T], r"weights\[2\] of shape \(5, 12\)"
    yield [*right[:2], right[2].astype("complex64")], "dtype complex64"
    yield [right[0], "nothing.npy", right[2]], r"weights\[1\]='nothing.npy'"


@pytest.mark.parametrize("wrong", list(wrong_weights()), ids=lambda wrong: wrong[1])
def test_refuses_other_weights_on_all_ranks(wrong):
    weights, message = wrong
    layer = make(SIZES, OPTIONS[2])
    before = layer.get_weights(all_ranks=True)
    # Others know of it too.
    with pytest.raises(ValueError, match=message):
        layer.set_weights(weights if ksd.rank() == 0 else numbered(SIZES))
    assert_equal(layer.get_weights(all_ranks=True), before)


def test_needs_a_built_layer():
    layer = DistributedEmbedding([keras.layers.Embedding(4, 2)])
    for call in (layer.get_weights, lambda: layer.set_weights([np.zeros((4, 2))])):
        with pytest.raises(ValueError, match=r"must be called on a built layer"):
            call()


def test_refuses_dynamic_tables():
    layer = DistributedEmbedding([Embedding(4, 2), Embedding(None, 2)])
    layer.build()
    with pytest.raises(NotImplementedError, match=r"save_checkpoint.*table 1 with input_dim=None"):
        layer.get_weights()
