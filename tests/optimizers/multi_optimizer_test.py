"""Several optimizers as one of `compile`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
from checkpoint_cases import reloaded
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import AdamW
from keras_sparse.optimizers import MultiOptimizer
from keras_sparse.optimizers import SGD
from keras_sparse.optimizers import split_embedding_variable_from_others
from keras_sparse.optimizers.support.step_count import accumulation
from optimizer_cases import read

ROWS, BATCH = 12, 8
IDS = np.random.default_rng(3).integers(0, ROWS, (40, 2))
TARGETS = np.random.default_rng(4).normal(size=(40, 1)).astype("float32")
PATHS = ["both/users", "both/items", "ads/embeddings", "top/kernel", "top/bias"]


def make_model(optimizer=None, **arguments):
    """A model of a table and a layer of two."""
    keras.utils.set_random_seed(7)
    ids = keras.Input((2,), dtype="int64")
    tables = [
        keras_sparse.layers.Embedding(ROWS, 2, "sum", name=name) for name in ("users", "items")
    ]
    rows = keras_sparse.layers.DistributedEmbedding(tables, name="both")([ids, ids])
    rows.append(keras_sparse.layers.Embedding(None, 2, "mean", name="ads")(ids))
    model = keras.Model(ids, keras.layers.Dense(1, name="top")(keras.layers.concatenate(rows)))
    if optimizer is not None:
        model.compile(optimizer, loss="mse", **arguments)
    return model


def fit(model, **arguments):
    return model.fit(IDS, TARGETS, batch_size=BATCH, shuffle=False, verbose=0, **arguments)


def schedule(rate):
    return keras.optimizers.schedules.ExponentialDecay(rate, 2, 0.5)


def table_and_dense():
    return {
        "others": AdamW(schedule(0.05), weight_decay=0.1, global_clipnorm=0.2),
        "embeddings": Adagrad(schedule(0.2), clipnorm=0.1),
    }


@keras.saving.register_keras_serializable("multi_optimizer_test")
def is_wide(variable):
    return variable.shape[-1] > 1


def counts(optimizer):
    return [int(each.iterations) for each in (optimizer, *optimizer.optimizers)]


def content(variables):
    """Every byte of them that training changes."""
    return [
        checks.table_content(each) if hasattr(each, "native") else np.asarray(each).tobytes()
        for each in variables
    ]


def assert_close(ours, theirs):
    for left, right in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(value(left), value(right), rtol=0, atol=1e-6)


def value(variable):
    if hasattr(variable, "native"):
        return read(variable, np.arange(ROWS))
    return variable.numpy()


@pytest.mark.parametrize(
    ("keys", "owners"),
    [
        (["embeddings", "others"], [0, 0, 0, 1, 1]),
        (["both", "others"], [0, 0, 1, 1, 1]),
        (["users", "embeddings", "top"], [0, 1, 1, 2, 2]),
        (["others", "[^/]*/(users|items)", "top/bias", "ads/.*"], [1, 1, 3, 0, 2]),
        ([lambda variable: "ads" in variable.path, "others"], [1, 1, 0, 1, 1]),
    ],
    ids=["words", "layer", "table", "paths", "function"],
)
def test_a_variable_has_the_optimizer_of_its_key(keys, owners):
    optimizer = MultiOptimizer({key: SGD(0.1) for key in keys})
    variables = make_model().trainable_variables
    optimizer.build(variables)
    found = dict(zip(optimizer.optimizers, optimizer.split(variables), strict=True))
    for i, key in enumerate(keys):
        has = [path for path, owner in zip(PATHS, owners, strict=True) if owner == i]
        assert [variables[place].path for place in found[optimizer[key]]] == has


def run_loop(model, optimizers, decorate=lambda step: step):
    """Trains by a list of optimizers: of all variables, or of tables and of others."""
    parts = [model.trainable_variables]
    if len(optimizers) > 1:
        parts = [*split_embedding_variable_from_others(*parts)]
    for optimizer, part in zip(optimizers, parts, strict=True):
        optimizer.build(part)

    @decorate
    def step(ids, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(ids) - targets) ** 2)
        for each, grads, part in zip(optimizers, tape.gradient(loss, parts), parts, strict=True):
            each.apply_gradients(zip(grads, part, strict=True))

    for begin in range(0, len(IDS), BATCH):
        step(*(tf.constant(each[begin : begin + BATCH]) for each in (IDS, TARGETS)))
    return model


def test_is_two_optimizers_of_a_loop_bit_for_bit():
    model, by_hand, in_graph = (
        make_model(MultiOptimizer(table_and_dense())),
        make_model(),
        make_model(),
    )
    run_loop(model, [model.optimizer])
    run_loop(by_hand, [table_and_dense()[name] for name in ("embeddings", "others")])
    run_loop(in_graph, [table_and_dense()[name] for name in ("embeddings", "others")], tf.function)
    steps = len(IDS) // BATCH
    assert counts(model.optimizer) == [steps] * 3
    assert content(model.variables) == content(by_hand.variables)
    assert_close(in_graph, by_hand)
    for arguments in ({"steps_per_execution": 5}, {"run_eagerly": True}):
        fitted = make_model(MultiOptimizer(table_and_dense()), **arguments)
        fit(fitted)
        assert_close(fitted, by_hand)


@pytest.mark.parametrize("form", ["keras", "weights.h5", "checkpoint"])
def test_what_is_saved_goes_on(form, tmp_path):
    optimizers = {is_wide: Adagrad(0.1), "others": AdamW(schedule(0.05))}
    model = make_model(MultiOptimizer(optimizers, name="both"), run_eagerly=True)
    fit(model)

    def other():
        # The order of a dict says nothing.
        again = {"others": AdamW(schedule(0.05)), is_wide: Adagrad(0.2)}
        other = make_model(MultiOptimizer(again), run_eagerly=True)
        other.optimizer.build(other.trainable_variables)
        return other

    loaded = reloaded(model, other, tmp_path, form)
    if form == "keras":
        assert type(loaded.optimizer) is MultiOptimizer
        assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert_close(model, loaded)
    assert_close(model.optimizer, loaded.optimizer)
    for each in (model, loaded):
        each.train_on_batch(IDS, TARGETS)
    assert_close(model, loaded)


def test_the_checkpoint_callback_brings_the_steps_of_all_back(tmp_path):
    callbacks = [keras_sparse.callbacks.Checkpoint(tmp_path)]
    fit(make_model(Adagrad(0.1), run_eagerly=True), callbacks=callbacks)
    model = make_model(optimizer := MultiOptimizer(table_and_dense()), run_eagerly=True)
    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer 'multi_opt"):
        fit(model, epochs=2, callbacks=[keras_sparse.callbacks.Checkpoint(tmp_path)])
    assert counts(optimizer) == [10] * 3


SCALED = {
    "dynamic": lambda optimizer: keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0),
    "over ranks": lambda optimizer: keras.optimizers.LossScaleOptimizer(
        ksd.DistributedOptimizer(optimizer), initial_scale=8.0
    ),
}


@pytest.fixture(scope="module")
def plain():
    """A model that is trained without a scale."""
    fit(model := make_model(MultiOptimizer(table_and_dense()), run_eagerly=True))
    return model


@pytest.mark.parametrize("wrap", [*SCALED.values(), None], ids=[*SCALED, "fixed"])
def test_losses_are_scaled_for_all(wrap, plain):
    optimizers = table_and_dense()
    scaled = wrap(MultiOptimizer(optimizers)) if wrap else MultiOptimizer(optimizers, 8.0)
    fit(model := make_model(scaled, run_eagerly=wrap is None))
    assert_close(model, plain)
    config = keras.saving.serialize_keras_object(scaled)
    assert keras.saving.deserialize_keras_object(config).get_config() == scaled.get_config()
    if wrap:
        before = content(model.variables)
        model.train_on_batch(IDS[:2], np.full((2, 1), np.inf))
        assert content(model.variables) == before
        assert int(model.optimizer.iterations) == len(IDS) // BATCH


WRAPS = [lambda each: each, ksd.DistributedOptimizer]


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="asks for Keras 3.15")
@pytest.mark.parametrize("wrap", WRAPS, ids=["alone", "over ranks"])
def test_callbacks_set_the_rate_of_each(wrap):
    optimizer = MultiOptimizer({"embeddings": Adagrad(0.4), "others": SGD(0.04)})
    model = make_model(wrap(optimizer), run_eagerly=wrap is WRAPS[1])
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    # No loss is below the first one by that much.
    reduce = keras.callbacks.ReduceLROnPlateau("loss", 0.1, patience=1, min_delta=1e9)
    history = fit(model, epochs=2, callbacks=[halve, reduce]).history
    assert [key for key in history if "rate" in key] == [
        f"learning_rate_{each.name}" for each in optimizer.optimizers
    ]
    for key, expected in (("embeddings", 0.01), ("others", 0.001)):
        np.testing.assert_allclose(float(optimizer[key].learning_rate), expected, rtol=1e-6)
    with pytest.raises(AttributeError, match=r'`optimizer\["embeddings"\].learning_rate`'):
        _ = model.optimizer.learning_rate
    with pytest.raises(AttributeError, match="must be set on one of the optimizers"):
        model.optimizer.learning_rate = 0.1


@pytest.mark.parametrize("wrap", SCALED.values(), ids=[*SCALED])
def test_callbacks_cannot_set_rates_within_a_loss_scale(wrap):
    """Keras looks for `optimizers`, which its wrapper does not have."""
    optimizer = MultiOptimizer({"embeddings": Adagrad(0.4), "others": SGD(0.04)})
    model = make_model(wrap(optimizer), run_eagerly=True)
    with pytest.raises(ValueError, match='must have a "learning_rate" attribute'):
        fit(model, callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate)])
    words = r'`optimizer\["embeddings"\].learning_rate`'
    with pytest.raises(AttributeError, match=words):
        fit(model, callbacks=[keras.callbacks.ReduceLROnPlateau("loss")])
    with pytest.raises(AttributeError, match=words):
        _ = model.optimizer.learning_rate


def test_an_optimizer_without_gradients_counts_the_step():
    table = keras_sparse.EmbeddingVariable(4, 2, initializer="ones")
    kernel = keras.Variable([1.0], name="kernel")
    optimizer = MultiOptimizer({"embeddings": SGD(1.0), "others": SGD(1.0)})
    with pytest.warns(UserWarning, match=r"Gradients do not exist for variables \['embeddings'\]"):
        optimizer.apply([None, tf.constant([1.0])], [table, kernel])
    assert counts(optimizer) == [1] * 3
    assert (kernel.numpy(), table.numpy().min()) == (0, 1)
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply([None, None])
    with pytest.raises(ValueError, match=r"one gradient a variable. Received: 1 gradients for 2"):
        optimizer.apply([None])
    with pytest.raises(ValueError, match=r"Make a new optimizer.*variable 'other'"):
        optimizer.apply([tf.constant([1.0])], [keras.Variable([1.0], name="other")])
    optimizer.apply([], [table])
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize(
    ("rows", "limit", "words"), [(None, 1, "max_rows=1"), (2, None, r"Received: ids\[1\] = 2")]
)
def test_a_step_that_a_table_refuses_changes_no_variable(rows, limit, words):
    tables = [
        keras_sparse.EmbeddingVariable(None, 2, name="free"),
        keras_sparse.EmbeddingVariable(rows, 2, name="full", max_rows=limit),
    ]
    kernel = keras.Variable([1.0])
    optimizers = {"free": SGD(1.0), "full": SGD(1.0), "others": SGD(1.0)}
    optimizer = MultiOptimizer(optimizers)
    grads = [tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 2], tf.int64), (4, 2))] * 2
    errors = (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)
    with pytest.raises(errors, match=words):
        optimizer.apply([*grads, tf.constant([1.0])], [*tables, kernel])
    assert [table.num_rows for table in tables] == [0, rows or 0]
    assert kernel.numpy() == 1
    assert counts(optimizer) == [0] * 4


@pytest.mark.parametrize(
    "wrap", [lambda each: MultiOptimizer({".*": each}), ksd.DistributedOptimizer]
)
def test_an_optimizer_used_alone_afterwards_looks_for_room_itself(wrap):
    table, kernel = keras_sparse.EmbeddingVariable(None, 2, max_rows=1), keras.Variable([1.0])
    optimizer = SGD(1.0)
    wrapped = wrap(optimizer)
    grads = [
        [tf.IndexedSlices(tf.ones((n, 2)), tf.range(n, dtype=tf.int64), (4, 2)), tf.ones([1])]
        for n in (1, 2)
    ]
    wrapped.apply(grads[0], [table, kernel])
    with pytest.raises(tf.errors.ResourceExhaustedError, match="max_rows=1"):
        optimizer.apply(grads[1], [table, kernel])
    assert (table.num_rows, kernel.numpy()) == (1, 0)


def test_averages_and_exclusions_are_those_of_each():
    kernels = [keras.Variable([1.0], name=name) for name in ("left", "right")]
    averaging = SGD(1.0, weight_decay=0.5, use_ema=True, ema_momentum=0.5)
    optimizer = MultiOptimizer({"left": averaging, "others": SGD(1.0, weight_decay=0.5)})
    optimizer.exclude_from_weight_decay(var_names=["left"])
    for _ in range(2):
        optimizer.apply([tf.constant([1.0])] * 2, kernels)
    optimizer.finalize_variable_values(kernels)
    np.testing.assert_allclose([float(each[0]) for each in kernels], [-0.5, -1.25])


def test_weights_and_the_loss_scale_are_set_for_all():
    kernels = [keras.Variable([1.0], name=name) for name in ("left", "right")]
    trained, fresh = (MultiOptimizer({"left": SGD(0.1, 0.9), "others": AdamW()}) for _ in range(2))
    trained.apply([tf.constant([1.0])] * 2, kernels)
    weights = [variable.numpy() for variable in trained.variables]
    with pytest.raises(ValueError, match="not yet been built"):
        fresh.set_weights(weights)
    fresh.build(kernels)
    fresh.set_weights(weights)
    for ours, theirs in zip(fresh.variables, weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    fresh.loss_scale_factor = 4.0
    assert [each.loss_scale_factor for each in (fresh, *fresh.optimizers)] == [4.0] * 3


def test_the_steps_to_accumulate_are_given_to_all():
    optimizers = {"embeddings": Adagrad(0.1), "others": SGD(gradient_accumulation_steps=3)}
    optimizer = MultiOptimizer(optimizers, gradient_accumulation_steps=3)
    again = MultiOptimizer.from_config(optimizer.get_config())
    for each in (*optimizer.optimizers, *again.optimizers):
        assert each.gradient_accumulation_steps == 3
    assert again.get_config() == optimizer.get_config()
    model = make_model(optimizer, run_eagerly=True)
    optimizer.build(model.trainable_variables)  # which gives rows their slots
    before = content(model.trainable_variables)
    for count in range(3):
        assert content(model.trainable_variables) == before
        model.train_on_batch(IDS[:4], TARGETS[:4])
        assert accumulation(optimizer) == (3, count + 1)
    after = content(model.trainable_variables)
    assert [left != right for left, right in zip(after, before, strict=True)] == [True] * 5


@pytest.mark.parametrize(
    ("inner", "steps", "kind", "words"),
    [
        (SGD(gradient_accumulation_steps=2), 3, ValueError, "'others': 2, MultiOptimizer: 3$"),
        (SGD(), 1, ValueError, "must be 2 or more, or None. Received: .*=1$"),
        (SGD(), "3", TypeError, "`gradient_accumulation_steps` must be an integer"),
    ],
)
def test_refuses_steps_to_accumulate_of_its_own(inner, steps, kind, words):
    with pytest.raises(kind, match=words):
        MultiOptimizer({"others": inner}, gradient_accumulation_steps=steps)


def test_an_optimizer_that_is_built_has_no_place_for_gradients():
    optimizer = SGD()
    optimizer.build([keras.Variable([1.0])])
    with pytest.raises(ValueError, match=r"when it is made.*optimizers\['others'\], built"):
        MultiOptimizer({"others": optimizer}, gradient_accumulation_steps=2)


REFUSED = [
    (None, TypeError, r"must be a dict from 'embeddings'.*Received: optimizers=None"),
    ({}, TypeError, "Received: optimizers={}"),
    ({3: SGD()}, TypeError, "Received: key 3 of type int"),
    ({"(": SGD()}, ValueError, r"a regular expression.*Received: key '\('"),
    ({"others": None}, ValueError, r"Received: optimizers\['others'\]=None"),
    ({"others": "adum"}, ValueError, r"Received: optimizers\['others'\]='adum'"),
    ({is_wide: ksd.DistributedOptimizer(SGD())}, ValueError, r"must not wrap .*function is_wide\]"),
    ({"others": MultiOptimizer({"others": SGD()})}, ValueError, "must not wrap other.*=MultiOpt"),
    (
        {"a": SGD(gradient_accumulation_steps=2), "others": SGD()},
        ValueError,
        r"`gradient_accumulation_steps` must be the same.*Received: 'a': 2, 'others': None$",
    ),
    ({"others": SGD(loss_scale_factor=2.0)}, ValueError, "must be given to MultiOptimizer.*=2.0"),
    (dict.fromkeys(("a", "b"), SGD()), ValueError, "separate optimizer for each .*the last 'b'"),
]


@pytest.mark.parametrize(("optimizers", "kind", "words"), REFUSED)
def test_refuses_what_is_no_choice_of_optimizers(optimizers, kind, words):
    with pytest.raises(kind, match=words):
        MultiOptimizer(optimizers)


UNCLEAR = [
    (("embeddings",), r"must be matched by a key.*'others'.*variable 'top/kernel', and keys"),
    (("both", "users", "others"), r"at most one key.*'both/users', which 'both' and 'users'"),
    (("ads|top", "others"), r"must match a variable.*Received: 'ads\|top', of variables"),
    (("user", "others"), r"must match a variable.*Received: 'user', of variables both/users, both"),
]


@pytest.mark.parametrize(("keys", "words"), UNCLEAR)
def test_refuses_variables_of_no_key_or_two_and_keys_of_no_variable(keys, words):
    model = make_model(MultiOptimizer({key: SGD(0.1) for key in keys}))
    with pytest.raises(ValueError, match=words):
        fit(model)


def test_a_table_needs_an_optimizer_for_tables():
    optimizer = MultiOptimizer({"embeddings": "adagrad", "others": "adam"})
    with pytest.raises(TypeError, match=r"must be trained by an optimizer of `keras_sparse\.opt"):
        optimizer.build(make_model().trainable_variables)
