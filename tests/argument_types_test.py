"""Classes take numbers and dtypes of NumPy as those of Python, and refuse the rest by name."""

import itertools
import json
import math

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import callbacks
from keras_sparse import layers
from keras_sparse import optimizers
from keras_sparse import storage

TABLE = layers.Embedding(100, 4)
DECAY = {"weight_decay": 0.5, "clipnorm": 2.0}
PARTS = {"row_slice_threshold": 9, "column_slice_threshold": 8, "data_parallel_threshold": 7}

# Each class with its arguments that are numbers, floats being ones that float32 has exactly. What
# Keras' classes look at themselves, such as `learning_rate` and a layer's `trainable`, is theirs.
CASES = [
    (keras_sparse.CBFFilter, {
        "filter_freq": 3, "max_element_size": 1000, "false_positive_probability": 0.25,
        "default_value_no_permission": 0.5,
    }),
    (keras_sparse.CounterFilter, {"filter_freq": 3, "default_value_no_permission": 0.5}),
    (keras_sparse.ProbabilityFilter, {"p": 0.25, "seed": 4, "default_value_no_permission": 0.5}),
    (keras_sparse.GlobalStepEvict, {"steps_to_live": 3, "at_save": False}),
    (keras_sparse.L2WeightEvict, {"l2_weight_threshold": 0.5, "at_save": True}),
    (keras_sparse.LruEvict, {"at_save": True}),
    (keras_sparse.LfuEvict, {"at_save": True}),
    (keras_sparse.TimeToLive, {"seconds": 2.5, "at_save": False}),
    (keras_sparse.StorageOption, {"storage_size": [1000]}),
    (layers.Embedding, {
        "input_dim": 5, "output_dim": 4, "seed": 3, "mask_zero": True,
    }),
    (layers.Embedding, {"input_dim": None, "output_dim": 4, "max_rows": 3, "padding_id": 7}),
    (layers.DistributedEmbedding, {
        "embeddings": [TABLE], **PARTS, "dp_input": True, "input_table_map": [0, 0],
        "memory_budget": 10**9, "num_slots": 1, "hotness": [2.0, 3.0],
    }),
    (layers.GroupEmbedding, {"embeddings": [TABLE]}),
    (layers.IntegerLookup, {"max_tokens": 20}),
    (layers.All2AllDenseEmbedding, {
        "max_vocabulary_size_per_gpu": 8, "embedding_vec_size": 4, "slot_num": 2,
        "nnz_per_slot": 3, "dynamic_input": False, "use_hashtable": True, "seed": 3,
    }),
    (layers.All2AllSparseEmbedding, {
        "combiner": "sum", "max_vocabulary_size_per_gpu": 8, "embedding_vec_size": 4,
        "slot_num": 2, "max_nnz": 3, "use_hashtable": False, "seed": 3,
    }),
    (callbacks.BroadcastGlobalVariables, {"root_rank": 0}),
    (callbacks.Checkpoint, {
        "path": "run", "every_steps": 9, "keep": 2, "delta_every": 3, "resume": False,
        "verbose": True, "skip_batches": False, "links": False, "begin_from": "before",
    }),
    (callbacks.EvictRows, {"every": 3, "verbose": 1}),
    (callbacks.TierStats, {
        "log_dir": "logs", "update_freq": 3, "verbose": 1, "counters": True,
    }),
    (ksd.StopTogether, {"every": 3}),
    (ksd.CostModel, {"memory_bandwidth": 2.0, "batch_size": 3, "table_seconds": 0.5}),
    (ksd.TableSpec, {
        "name": "a", "rows": 5, "width": 4, "hotness": 2.0, "num_slots": 1, "trainable": False,
        "row_dtype": "bfloat16",
    }),
    (ksd.TableSpec, {"name": "a", "rows": None, "width": 4, "first_tier_bytes": 4096}),
    (optimizers.AdagradDecay, {
        **DECAY, "initial_accumulator_value": 0.5, "accumulator_decay_step": 3,
        "accumulator_decay_rate": 0.5,
    }),
    (optimizers.AdamAsync, {**DECAY, "beta_1": 0.5, "apply_sparse_rmsprop": True}),
    (optimizers.MultiOptimizer, {
        "optimizers": {"others": {"class_name": "SGD", "config": {"name": "plain"}}},
        "loss_scale_factor": 2.0,
    }),
    (optimizers.RowWiseAdagrad, {**DECAY, "initial_accumulator_value": 0.5}),
    (optimizers.LazyAdam, {**DECAY, "beta_1": 0.5, "beta_2": 0.75}),
    (optimizers.Ftrl, {**DECAY, "beta": 0.5, "l1_regularization_strength": 0.25}),
]  # fmt: skip


def content(thing):
    """What a thing is, as text: of its config, or of all it has."""
    if hasattr(thing, "get_config") and not isinstance(thing, keras.callbacks.Callback):
        config = thing.get_config()
        config.pop("name", None)
        return json.dumps(keras.saving.serialize_keras_object(config), sort_keys=True)
    return repr({name: value for name, value in vars(thing).items() if name[0] != "_"})


def of_numpy(value, integer, floating):
    if isinstance(value, list):
        return [of_numpy(each, integer, floating) for each in value]
    of_type = {bool: np.bool_, int: integer, float: floating}.get(type(value))
    return value if of_type is None else of_type(value)


@pytest.mark.parametrize("types", [(np.int64, np.float64), (np.uint32, np.float32)])
@pytest.mark.parametrize(("kind", "arguments"), CASES, ids=[kind.__name__ for kind, _ in CASES])
def test_numbers_of_numpy_are_numbers(kind, arguments, types):
    given = {name: of_numpy(value, *types) for name, value in arguments.items()}
    assert content(kind(**given)) == content(kind(**arguments))


@pytest.mark.parametrize("types", [(np.int64, np.float64), (np.uint32, np.float32)])
def test_a_variable_takes_numbers_of_numpy(types):
    arguments = {"input_dim": 5, "output_dim": 4, "seed": 3, "trainable": False}
    variables = [
        keras_sparse.EmbeddingVariable(**{k: of_numpy(v, *types) for k, v in arguments.items()}),
        keras_sparse.EmbeddingVariable(**arguments),
    ]
    np.testing.assert_array_equal(*[variable.numpy() for variable in variables])
    assert [variable.trainable for variable in variables] == [False, False]


# None of them is an argument of every class, and some of none.
ODD = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, 1e300, math.nan, math.inf,
    -math.inf, "", "x", "ä\0", b"x", [], [[]], [None], (1, 2, 3), {}, {"a": 1}, set(), object(),
    int, abs, np.zeros(0), np.zeros((2, 2)), np.float32(3), np.int8(-3), 1j,
]  # fmt: skip
OF_KERAS = ("l1_regularization_strength",)


@pytest.mark.parametrize(("kind", "arguments"), CASES, ids=[kind.__name__ for kind, _ in CASES])
def test_whatever_is_given_is_taken_or_refused_by_name(kind, arguments):
    messages = {}
    for name, value in itertools.product(arguments.keys() - OF_KERAS, ODD):
        try:
            kind(**{**arguments, name: value})
        except (TypeError, ValueError, NotImplementedError) as error:
            messages[name, str(value)[:20]] = str(error)
    # Where two do not go together, either may be named.
    unnamed = {
        what: message
        for what, message in messages.items()
        if not any(name in message for name in arguments)
    }
    assert not unnamed


DTYPES = [
    (lambda each: storage.CBFFilter(3, 100, counter_type=each), "uint8"),
    (lambda each: layers.DistributedEmbedding([TABLE], wire_dtype=each), "float16"),
    (lambda each: layers.DistributedEmbedding([TABLE], wire_dtype=each), "bfloat16"),
    (lambda each: layers.All2AllDenseEmbedding(8, 4, 2, 3, key_dtype=each), "uint32"),
    (lambda each: layers.Embedding(5, 4, dtype=each), "float32"),
    (lambda each: layers.IntegerLookup(5, dtype=each), "int64"),
]


@pytest.mark.parametrize(
    "as_dtype",
    [tf.as_dtype, np.dtype, lambda name: getattr(np, name, None) or getattr(ml_dtypes, name)],
    ids=["tensorflow", "numpy", "type"],
)
@pytest.mark.parametrize(("make", "name"), DTYPES)
def test_dtypes_are_their_names(make, name, as_dtype):
    of_object, of_name = make(as_dtype(name)), make(name)
    assert content(of_object) == content(of_name)
    assert name in content(of_object)


@pytest.mark.parametrize("value", [tf.int32, np.float64, "double", None, 8])
def test_other_dtypes_are_an_error(value):
    with pytest.raises(ValueError, match=r"`counter_type` must be one of \('uint8'.*Received"):
        storage.CBFFilter(3, 100, counter_type=value)
