"""What an optimizer refuses of embedding variables, by name."""

import keras
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import optimizers
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import SGD
from optimizer_cases import each_class
from optimizer_cases import first_row
from optimizer_cases import kernel
from optimizer_cases import ones_for
from optimizer_cases import zeros_table


def test_refuses_a_dense_gradient():
    with pytest.raises(TypeError, match=r"must be `tf.IndexedSlices`.*shape \(4, 2\) for 'table'"):
        SGD(1.0).apply([tf.ones((4, 2))], [zeros_table()])


def test_refuses_a_variable_it_was_not_built_with():
    optimizer = SGD(1.0)
    optimizer.build([zeros_table()])
    with pytest.raises(ValueError, match=r"Make a new optimizer.*variable 'other'"):
        optimizer.apply([ones_for(0)], [zeros_table(name="other")])


def test_refuses_a_variable_that_comes_twice():
    table = zeros_table()
    with pytest.raises(ValueError, match=r"in the list of variables once. Received: 'table' twice"):
        SGD(1.0).build([table, kernel(), table])
    optimizer = SGD(1.0)
    optimizer.build([table])
    with pytest.raises(ValueError, match="in the list of variables once"):
        optimizer.apply([ones_for(0), ones_for(1)], [table, table])


@each_class
def test_refuses_averages_of_embedding_variables(case):
    option = {"use_ema": True}
    words = (
        r"`use_ema` is not supported on embedding variables.*another optimizer "
        r"\(`MultiOptimizer`\)\. "
        f"Received: {case.ours.__name__}.use_ema=True with variable 'table'"
    )
    table, optimizer = zeros_table(), case.make(**option)
    with pytest.raises(NotImplementedError, match=words):
        optimizer.build([kernel(), table])
    with pytest.raises(NotImplementedError, match=words):
        optimizer.apply([ones_for(0)], [table])
    assert table.rule is None
    case.make(**option).apply([tf.ones(1)], [kernel()])


@each_class
@pytest.mark.parametrize(
    ("name", "value"),
    [("constraint", keras.constraints.NonNeg()), ("regularizer", keras.regularizers.L2())],
)
def test_refuses_constraints_and_regularizers_of_embedding_variables(name, value, case):
    table, optimizer = zeros_table(), case.make()
    setattr(table, name, value)
    words = f"`{name}` is not supported.*Received: variable.{name}=.*'table'"
    with pytest.raises(NotImplementedError, match=words):
        optimizer.build([table])
    with pytest.raises(NotImplementedError, match=words):
        optimizer.apply([ones_for(0)], [table])
    assert table.rule is None
    # They may come later, too.
    setattr(table, name, None)
    optimizer.build([table])
    setattr(table, name, value)
    with pytest.raises(NotImplementedError, match=words):
        optimizer.apply([ones_for(0)], [table])
    assert first_row(table) == 0


def test_a_refused_build_leaves_the_table_to_its_optimizer():
    table, optimizer = zeros_table(), Adagrad(1.0)
    optimizer.build([table])
    with pytest.raises(NotImplementedError):
        SGD(1.0, use_ema=True).build([table])
    optimizer.apply([ones_for(0)])


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam", "AdamW", "Ftrl"])
def test_keras_optimizers_are_refused_on_embedding_variables(name):
    table = zeros_table()
    words = (
        r"`keras_sparse\.optimizers\.from_keras` turns one.*a compiled model.*`compile=False`.*"
        "for variable 'table'"
    )
    with pytest.raises(TypeError, match=words):
        getattr(keras.optimizers, name)(0.1).apply([ones_for(0)], [table])
    assert first_row(table) == 0


OUTSIDE = [
    (lambda: optimizers.RMSprop(momentum=1.5), "momentum", r"in \[0, 1\]", 1.5),
    (lambda: optimizers.RMSprop(rho=1.01), "rho", r"in \[0, 1\]", 1.01),
    (lambda: optimizers.RMSprop(rho=-0.1), "rho", r"in \[0, 1\]", -0.1),
    (lambda: optimizers.Adadelta(rho=2.0), "rho", r"in \[0, 1\]", 2.0),
    (lambda: optimizers.Adam(beta_1=-0.5), "beta_1", r"in \[0, 1\)", -0.5),
    (lambda: optimizers.Adam(beta_1=1.5, amsgrad=True), "beta_1", r"in \[0, 1\)", 1.5),
    (lambda: optimizers.Adam(beta_2=0.0), "beta_2", r"in \[1e-6, 1\)", 0.0),
    (lambda: optimizers.AdamW(beta_2=1.1), "beta_2", r"in \[1e-6, 1\)", 1.1),
    (lambda: optimizers.Adamax(beta_2=0.0), "beta_2", r"in \[1e-6, 1\)", 0.0),
    (lambda: optimizers.Nadam(beta_2=-0.1), "beta_2", r"in \[1e-6, 1\)", -0.1),
    (lambda: optimizers.Lion(beta_2=0.0), "beta_2", r"in \[1e-6, 1\)", 0.0),
    (lambda: optimizers.LazyAdam(beta_2=0.0), "beta_2", r"in \[1e-6, 1\)", 0.0),
    (lambda: optimizers.AdamAsync(beta_1=1.5), "beta_1", r"in \[0, 1\)", 1.5),
    (lambda: optimizers.Adam(beta_1=1.0), "beta_1", r"in \[0, 1\)", 1.0),
    (lambda: Adagrad(1.0, -1.0), "initial_accumulator_value", "at least 0", -1.0),
    (lambda: optimizers.RowWiseAdagrad(1.0, -0.5), "initial_accumulator_value", "at least 0", -0.5),
    (lambda: optimizers.Adam(beta_1=float("nan")), "beta_1", r"in \[0, 1\)", "nan"),
]


@pytest.mark.parametrize(("make", "name", "rule", "value"), OUTSIDE)
def test_refuses_constants_that_would_make_a_row_no_number(make, name, rule, value):
    table = zeros_table()
    Adagrad(1.0).build([table])
    words = f"`{name}` must be {rule} for embedding variables. Received: {name}={value}"
    with pytest.raises(ValueError, match=words):
        make().build([kernel(), table])
    assert table.rule == "adagrad"
    make().build([kernel()])


@pytest.mark.parametrize("make", [optimizers.LazyAdam, optimizers.AdamAsync])
def test_refuses_amsgrad_where_rows_outside_the_batch_stay(make):
    with pytest.raises(NotImplementedError, match=r"`amsgrad` is not supported.*amsgrad=True"):
        make(amsgrad=True).build([zeros_table()])
    make(amsgrad=True).apply([tf.ones(1)], [kernel()])


def test_refuses_weight_decay_that_would_turn_a_row_around():
    table = zeros_table()
    optimizer = optimizers.AdamW(0.5, weight_decay=2.0)
    words = (
        "table 'table': `weight_decay` times the learning rate must be below 1, .*weight_decay=2.0"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        optimizer.apply([ones_for(0)], [table])
    optimizer.learning_rate = 0.25
    optimizer.apply([ones_for(0)], [table])
    assert first_row(table) < 0


def test_refuses_settings_that_changed_after_the_build():
    table = zeros_table()
    optimizer = optimizers.AdamW(0.5, weight_decay=0.5)
    optimizer.apply([ones_for(0)], [table])
    optimizer.learning_rate = 0.25
    optimizer.apply([ones_for(0)], [table])
    row = first_row(table)
    words = r"must stay unchanged.*weight_decay=0\.25 \(built with 0\.5\) for variable 'table'"
    refusals = {
        "weight_decay": (0.25, words),
        "gradient_accumulation_steps": (2, r"accumulation_steps=2 \(built with None\)"),
        "beta_1": (0.5, r"constants={'beta_1': 0\.5, .*built with {'beta_1': 0\.9"),
        "clipvalue": (0.5, r"clipvalue=0\.5 \(built with None\)"),
    }
    for name, (value, words) in refusals.items():
        before = getattr(optimizer, name)
        # At once: a step that is traced would go on with the setting that it was traced with.
        with pytest.raises(RuntimeError, match=words):
            setattr(optimizer, name, value)
        assert getattr(optimizer, name) == before
    with pytest.raises(AttributeError, match=r"optimizer\.inner_optimizer\.beta_1.*beta_1=0\.5"):
        keras_sparse.distribute.DistributedOptimizer(optimizer).beta_1 = 0.5
    with pytest.raises(AttributeError, match=r'clipnorm.*optimizer\["embeddings"\]\.clipnorm'):
        keras_sparse.optimizers.MultiOptimizer({"embeddings": optimizer}).clipnorm = 1
    assert first_row(table) == row
    optimizer.apply([ones_for(0)], [table])
    assert first_row(table) < row


def test_refuses_to_leave_a_table_out_of_weight_decay_after_the_build():
    table = zeros_table()
    optimizer = SGD(0.5, weight_decay=0.5)
    optimizer.build([table])
    optimizer.built = False
    optimizer.exclude_from_weight_decay([table])
    optimizer.built = True
    with pytest.raises(RuntimeError, match=r"weight_decay=0\.0 \(built with 0\.5\)"):
        optimizer.apply([ones_for(0)], [table])


CENTERED = {"centered": True}
SLOW = "averages with beta_2=0.999 never fall"
SLOTS_IN_16_BITS = [
    (optimizers.RMSprop(momentum=0.9, **CENTERED), "stochastic", "centered velocity is a diff"),
    (optimizers.RMSprop(**CENTERED), "nearest", "centered velocity is a difference of slots. Leav"),
    (optimizers.RMSprop(), "nearest", None),
    (optimizers.RMSprop(rho=0.999), "nearest", "averages with rho=0.999 never fall"),
    (optimizers.Adam(), "nearest", SLOW),
    (optimizers.Adam(beta_1=0.998), "nearest", "with beta_1=0.998 and beta_2=0.999 never"),
    (optimizers.Adam(beta_2=0.99), "nearest", None),
    (optimizers.Adam(amsgrad=True), "nearest", None),
    (optimizers.AdamW(), "nearest", SLOW),
    (optimizers.LazyAdam(), "nearest", SLOW),
    (optimizers.AdamAsync(), "nearest", SLOW),
    (optimizers.AdamAsync(apply_sparse_rmsprop=True), "nearest", "averages with rho=0.999 never"),
    (optimizers.Nadam(), "nearest", SLOW),
    (optimizers.Adamax(), "nearest", SLOW),
    (optimizers.Ftrl(), "nearest", "`linear` stands still if it is rounded to the nearest. Or"),
    (optimizers.SGD(momentum=0.999), "nearest", "averages with momentum=0.999 never"),
    (optimizers.SGD(momentum=0.9), "nearest", None),
    (optimizers.Lion(), "nearest", None),
    (optimizers.Adagrad(), "nearest", None),
    (optimizers.AdagradDecay(), "nearest", None),
    (optimizers.RowWiseAdagrad(), "nearest", None),
    (optimizers.Adadelta(), "nearest", None),
]


@pytest.mark.parametrize(("optimizer", "rounding", "words"), SLOTS_IN_16_BITS)
def test_refuses_slots_in_16_bits_that_break_its_training(optimizer, rounding, words):
    def build(**dtypes):
        table = keras_sparse.EmbeddingVariable(4, 2, name="table", **dtypes)
        type(optimizer).from_config(optimizer.get_config()).build([table])
        return table

    if words is None:
        assert build(slot_dtype="bfloat16", rounding=rounding).rule is not None
    else:
        got = f"slot_dtype='bfloat16' with rounding='{rounding}' of variable 'table'"
        words = f"`slot_dtype` must be 'float32' for {type(optimizer).__name__}, whose .*{words}"
        with pytest.raises(ValueError, match=f"{words}.* Received: {got}"):
            build(slot_dtype="bfloat16", rounding=rounding)
    if not getattr(optimizer, "centered", False):
        assert build(slot_dtype="bfloat16", rounding="stochastic").rule is not None
    assert build(row_dtype="bfloat16", rounding=rounding).rule is not None
