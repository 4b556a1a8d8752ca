"""What every optimizer holds to beside its rule."""

import gc
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
from keras_sparse import optimizers
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import AdamAsync
from keras_sparse.optimizers import SGD
from keras_sparse.optimizers import SparseOptimizer
from optimizer_cases import CLASSES
from optimizer_cases import dense
from optimizer_cases import each_class
from optimizer_cases import each_optimizer
from optimizer_cases import first_row
from optimizer_cases import KEYS
from optimizer_cases import make_model
from optimizer_cases import make_table
from optimizer_cases import ones_for
from optimizer_cases import PLAIN_ADAM
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices
from optimizer_cases import tables_of
from optimizer_cases import zeros_table

ROWS = 12
# Later batches have other rows than earlier ones, so that there are moves to make up for.
IDS = np.random.default_rng(3).integers(0, ROWS // 2, (40, 2)) + np.arange(40)[:, None] * ROWS // 80
TARGETS = np.random.default_rng(4).normal(size=(40, 1)).astype("float32")
BATCHES = [slice(first, first + 8) for first in range(0, 40, 8)]


@pytest.mark.parametrize(
    ("optimizer", "slots", "record_floats"),
    [
        (optimizers.SGD(), (), 2),
        (optimizers.SGD(momentum=0.5), ("momentum",), 4),
        (optimizers.Adagrad(), ("accumulator",), 4),
        (optimizers.AdagradDecay(), ("accumulator", "num_decays"), 5),
        (optimizers.RowWiseAdagrad(), ("row_accumulator",), 3),
        (AdamAsync(apply_sparse_rmsprop=True), ("velocity", "momentum"), 6),
        (AdamAsync(beta_1=0.0, apply_sparse_rmsprop=True), ("velocity",), 4),
    ],
)
def test_keeps_its_slots_beside_each_row(optimizer, slots, record_floats):
    table = zeros_table(None)
    type(optimizer).from_config(optimizer.get_config()).build([table])
    assert (table.slot_names, table.record_floats) == (slots, record_floats)


@each_class
@pytest.mark.parametrize("keys", [np.arange(ROWS), KEYS[:ROWS]], ids=["static", "dynamic"])
def test_reading_changes_neither_a_byte_nor_a_later_step(keys, case):
    never_read, table = (make_table(keys, random_rows(ROWS, 3)) for _ in range(2))
    optimizers = case.make(), case.make()
    for batch in BATCHES[::2]:
        ids = keys[IDS[batch, 0]]
        gradient = slices(ids, np.tile(TARGETS[batch], 3))
        for optimizer, each in zip(optimizers, (never_read, table), strict=True):
            optimizer.apply([gradient], [each])
        before = checks.table_content(table)
        read(table, keys)
        assert checks.table_content(table) == before
    checks.assert_same_tables(table, never_read)


def fit(case, **compile_arguments):
    model = make_model(case.make(), ROWS, **compile_arguments)
    model.fit(IDS, TARGETS, batch_size=8, shuffle=False, verbose=0)
    return model


def run_loop(case, decorate):
    model = make_model(case.make(), ROWS)

    @decorate
    def step(inputs, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply(grads, model.trainable_variables)

    for batch in BATCHES:
        step(tf.constant(IDS[batch]), tf.constant(TARGETS[batch]))
    return model


def weights(model):
    rows = [read(table, np.arange(ROWS)) for table in tables_of(model)]
    return np.concatenate([w.reshape(-1) for w in (*rows, *model.layers[-1].get_weights())])


@pytest.mark.parametrize(
    "case",
    # Those that count steps or keep powers of their own. Adagrad's bits are those of every way too
    # (embedding_training_test).
    [c for c in CLASSES if c.ours.__name__ in ("AdamW", "Nadam", "AdamAsync")],
    ids=lambda case: case.ours.__name__,
)
def test_fit_and_loops_give_the_same_model(case):
    expected = weights(run_loop(case, decorate=lambda step: step))
    others = {
        "tf.function": run_loop(case, decorate=tf.function),
        "steps_per_execution": fit(case, steps_per_execution=5),
    }
    for way, model in others.items():
        np.testing.assert_allclose(weights(model), expected, rtol=0, atol=1e-6, err_msg=way)


# Each step's gradients are of another size, as some rules take no notice of a common factor: they
# too show what is clipped. Norms of the second are clipped only if they are not scaled.
STEP_SIZES = (30.0, 0.03, 3.0, 0.05)
SCALE = {"loss_scale_factor": 64.0}
CLIPS = [{"clipvalue": 0.3}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}]
# Each class with both, of which clipping is left after two steps; and with one of the two.
OPTIONS = zip(CLASSES, itertools.cycle([{**SCALE, **clip} for clip in CLIPS]))
OPTIONS = [*OPTIONS, *zip(CLASSES, itertools.cycle([SCALE, *CLIPS]))]


@pytest.mark.parametrize(
    ("case", "option"), OPTIONS, ids=lambda each: getattr(each, "name", str(each))
)
def test_scales_and_clips_as_keras_does_the_dense_gradient(case, option):
    ours, without, reference = case.make(**option), case.make(), case.make_keras(**option)
    rows = [random_rows(ROWS, 4, seed) for seed in range(2)]
    keys = [np.arange(ROWS), KEYS[:ROWS]]
    pairs = list(zip(keys, rows, strict=True))
    tables, others = ([make_table(*pair) for pair in pairs] for _ in range(2))
    embeddings = [keras.Variable(each) for each in rows]
    # Of one column, where an accumulator a row is one an element; and there are fewer steps than
    # AdagradDecay has from one decay to the next, which is that of tables alone.
    kernels = [keras.Variable(np.ones((6, 1), "float32")) for _ in range(3)]
    rng = np.random.default_rng(0)
    for step, size in enumerate(STEP_SIZES):
        if step == 2:  # one that stays the same would not show in those rules either
            ours.loss_scale_factor = reference.loss_scale_factor = None
        size *= reference.loss_scale_factor or 1.0
        ids = np.concatenate([rng.integers(0, 5, 6), np.arange(ROWS if case.lazy else 0)])
        values = [(size * rng.normal(size=(len(ids), 4))).astype("float32") for _ in tables]
        other = (size * rng.normal(size=(6, 1))).astype("float32")
        sparse = [slices(k[ids], v) for k, v in zip(keys, values, strict=True)]
        ours.apply([other, *sparse], [kernels[0], *tables])
        grads = [dense(ids, v, ROWS) for v in values]
        reference.apply([other, *grads], [kernels[1], *embeddings])
        without.apply([other, *sparse], [kernels[2], *others])
    for key, table, expected, other in zip(keys, tables, embeddings, others, strict=True):
        np.testing.assert_allclose(read(table, key), expected.numpy(), rtol=0, atol=2e-6)
        assert np.abs(read(other, key) - expected.numpy()).max() > 1e-4
    np.testing.assert_allclose(kernels[0].numpy(), kernels[1].numpy(), rtol=0, atol=1e-6)
    assert np.abs(kernels[2].numpy() - kernels[1].numpy()).max() > 1e-4


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    "case",
    [case for case in CLASSES if case.ours is not AdamAsync],  # has its own count
    ids=lambda case: case.name,
)
def test_a_step_without_a_gradient_is_none_of_the_tables_as_in_keras(case):
    ours, reference = case.make(), case.make_keras()
    rows = [random_rows(4, 2, seed) for seed in range(2)]
    tables = [make_table(np.arange(4), each) for each in rows]
    embeddings = [keras.Variable(each) for each in rows]
    ids = np.arange(4 if case.lazy else 2)
    values = np.tile(np.float32([1.0, -0.25]), (len(ids), 1))
    for step in range(12):
        has_gradient = [step % 3 != 1, step % 4 == 0 or step % 3 == 1]
        ours.apply([slices(ids, values) if has else None for has in has_gradient], tables)
        grads = [dense(ids, values, 4) if has else None for has in has_gradient]
        reference.apply(grads, embeddings)
    for table, expected in zip(tables, embeddings, strict=True):
        np.testing.assert_allclose(table.numpy(), expected.numpy(), rtol=0, atol=2e-6)


OTHERS = [{"use_ema": True}, {"gradient_accumulation_steps": 2}, {"clipnorm": 0.5}]


@pytest.mark.parametrize(
    ("case", "option"),
    [*zip(CLASSES, itertools.cycle(OTHERS)), (PLAIN_ADAM, {"amsgrad": True})],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_other_variables_are_left_to_keras(case, option):
    ours = case.make(**option)
    stock = next(base for base in case.ours.__mro__ if not issubclass(base, SparseOptimizer))
    reference = stock(**{name: ours.get_config()[name] for name in stock().get_config()})
    kernels = [keras.Variable([1.0, 2.0]) for _ in range(2)]
    for scale in range(4):
        for optimizer, kernel in zip((ours, reference), kernels, strict=True):
            optimizer.apply([tf.constant([1.0, -2.0]) * scale], [kernel])
    np.testing.assert_array_equal(kernels[0].numpy(), kernels[1].numpy())
    assert len(ours.variables) == len(reference.variables)


@each_optimizer
def test_config_round_trips(case):
    optimizer = case.make(clipnorm=2.0, name="named")
    for copy in (
        case.ours.from_config(optimizer.get_config()),
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer)),
        keras.optimizers.get(keras.optimizers.serialize(optimizer)),
    ):
        assert type(copy) is case.ours
        assert copy.get_config() == optimizer.get_config()
        assert copy.rule == optimizer.rule
        assert copy.rule_constants() == optimizer.rule_constants()


# One table and several optimizers, and one model and several optimizers.
def test_a_second_build_changes_nothing():
    table, optimizer = zeros_table(), Adagrad(1.0, initial_accumulator_value=0.0)
    optimizer.apply([ones_for(0)], [table])
    optimizer.build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[0, 2:], [1, 1])


def test_a_new_optimizer_starts_with_fresh_slots():
    table = zeros_table()
    Adagrad(1.0, initial_accumulator_value=0.0).apply([ones_for(0)], [table])
    row = first_row(table)
    Adagrad(1.0, initial_accumulator_value=0.5).build([table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[:, 2:], np.full((4, 2), 0.5))
    assert first_row(table) == row


@pytest.mark.parametrize("later", [SGD, Adagrad])
def test_refuses_a_table_that_went_to_another_optimizer(later):
    table, optimizer = zeros_table(), Adagrad(1.0, name="first")
    optimizer.apply([ones_for(0)], [table])
    later(1.0).build([table])
    with pytest.raises(RuntimeError, match="'table' must keep the slots of optimizer 'first'"):
        optimizer.apply([ones_for(0)])


def test_a_compiled_step_refuses_slots_that_another_optimizer_laid_out():
    table = zeros_table()
    first = Adagrad(0.5)
    step = tf.function(lambda: first.apply([ones_for(0)], [table]))
    step()
    second = Adagrad(0.5)
    second.apply([ones_for(1)], [table])
    before = table.numpy()
    with pytest.raises(tf.errors.FailedPreconditionError, match="another one was built on it"):
        step()
    np.testing.assert_array_equal(table.numpy(), before)
    second.apply([ones_for(0)], [table])


def test_a_forgotten_optimizer_leaves_the_table_free():
    table = zeros_table()
    SGD(1.0).apply([ones_for(0)], [table])
    gc.collect()
    Adagrad(1.0).apply([ones_for(0)], [table])
    assert table.rule == "adagrad"


@pytest.mark.parametrize("keys", [np.arange(6), KEYS[:6]], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "case", [c for c in CLASSES if c.catches_up], ids=lambda c: c.ours.__name__
)
def test_a_new_optimizer_takes_the_rows_as_they_read(case, keys):
    """With the moves that they have missed, as in Keras."""
    rows = random_rows(6, 2)
    table, reference = make_table(keys, rows), keras.Variable(rows)

    def train(ours, stock, ids):
        values = np.full((len(ids), 2), 0.5, "float32")
        ours.apply([slices(keys[np.array(ids, int)], values)], [table])
        stock.apply([dense(ids, values, 6)], [reference])

    first = (case.make(), case.make_keras())
    for ids in ([0, 1, 2], [0], [0], [], [5], [5]):
        train(*first, ids)
    before = read(table, keys)
    second = (optimizers.Adam(0.001), keras.optimizers.Adam(0.001))
    for optimizer, variable in zip(second, (table, reference), strict=True):
        optimizer.build([variable])
    np.testing.assert_array_equal(read(table, keys), before)
    for ids in ([0, 3], [], [3], [1], []):
        train(*second, ids)
    np.testing.assert_allclose(read(table, keys), reference.numpy(), rtol=0, atol=2e-6)
