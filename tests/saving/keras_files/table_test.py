"""What a table's file holds, and into what it can be loaded."""

import json
import os
import subprocess
import sys
import textwrap
import zlib

import keras
import numpy as np
import pytest

import checks
import keras_sparse
from keras_sparse import EmbeddingVariable
from keras_sparse.layers import Embedding
from keras_sparse.saving import load_table
from keras_sparse.saving import save_table
from keras_sparse.saving.table_format.table_header import TableHeader

ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
CONSTANTS = {
    "sgd": {},
    "adagrad": {"initial_accumulator": 0.5, "epsilon": 1e-7},
    "row_wise_adagrad": {"initial_accumulator": 0.5, "epsilon": 1e-7},
    "adam": ADAM,
    "lazy_adam": ADAM,
    "amsgrad": ADAM,
}


def table(input_dim=None, rule=None, **kwargs):
    variable = EmbeddingVariable(input_dim, 2, **kwargs)
    if rule is not None:
        variable.table.set_rule(rule, CONSTANTS[rule])
    return variable


def filled(**kwargs):
    variable = table(**kwargs)
    keys = np.arange(5) if variable.input_dim else np.array([-(2**63), -1, 0, 7, 2**63 - 1])
    records = np.random.default_rng(0).normal(size=(5, variable.record_floats))
    variable.import_(keys, records)
    return variable


@pytest.mark.parametrize("rule", [None, *CONSTANTS])
@pytest.mark.parametrize("input_dim", [5, None])
def test_a_table_comes_back_bit_for_bit(input_dim, rule):
    saved, loaded = filled(input_dim=input_dim, rule=rule), table(input_dim, rule)
    if input_dim is None:
        loaded.import_([99], [[1.0, 2.0]])  # goes
    store = {}
    save_table(saved, store)
    load_table(loaded, store)
    checks.assert_same_tables(loaded, saved)


@pytest.mark.parametrize(
    ("rule", "slot_names", "record_floats"),
    [
        (None, [], 2),
        ("sgd", [], 2),
        ("adagrad", ["accumulator"], 4),
        ("row_wise_adagrad", ["row_accumulator"], 3),
        ("adam", ["momentum", "velocity"], 6),
        ("amsgrad", ["momentum", "velocity", "velocity_hat"], 8),
    ],
)
def test_the_header_says_what_a_record_holds(rule, slot_names, record_floats):
    store = {}
    save_table(filled(rule=rule), store)
    assert sorted(store) == ["header", "header_crc32", "keys_000000", "records_000000"]
    header = json.loads(store["header"].tobytes())
    initial_rows = header.pop("initial_rows")
    assert sorted(initial_rows) == ["a", "b", "kind", "seed"]
    checksums = [zlib.crc32(store[name].data) for name in ("keys_000000", "records_000000")]
    assert header == {
        "format": "keras_sparse table",
        "version": 2,
        "input_dim": None,
        "output_dim": 2,
        "rule": rule,
        "slot_names": slot_names,
        "record_floats": record_floats,
        "chunks": [[5, *checksums]],
    }
    assert store["records_000000"].shape == (5, record_floats)
    assert store["records_000000"].dtype == np.float32
    assert TableHeader.read(store).num_rows == 5


def test_an_empty_dynamic_table_comes_back_empty():
    store, loaded = {}, filled()
    save_table(table(), store)
    load_table(loaded, store)
    assert loaded.num_rows == 0


def test_a_key_without_a_row_reads_as_it_did():
    saved, loaded = filled(initializer="normal", seed=3), table(initializer="uniform", seed=4)
    store = {}
    save_table(saved, store)
    load_table(loaded, store)
    ids = [np.array([123, -456])]
    np.testing.assert_array_equal(
        keras_sparse.ops.lookup([loaded], ids)[0], keras_sparse.ops.lookup([saved], ids)[0]
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: EmbeddingVariable(6, 2), "saved input_dim=5, output_dim=2.*input_dim=6"),
        (lambda: EmbeddingVariable(5, 3), "saved input_dim=5, output_dim=2.*output_dim=3"),
        (lambda: EmbeddingVariable(None, 2), "saved input_dim=5.*input_dim=None"),
    ],
)
def test_a_table_of_another_shape_or_kind_is_refused(other, words):
    store, variable = {}, other()
    save_table(filled(input_dim=5), store)
    before = checks.table_content(variable)
    with pytest.raises(ValueError, match=words):
        load_table(variable, store)
    assert checks.table_content(variable) == before


def sequential(layer):
    return keras.Sequential([keras.Input((2,), dtype="int64"), layer])


def test_takes_the_file_of_a_keras_layer(tmp_path):
    reference = sequential(keras.layers.Embedding(5, 3))
    reference.save_weights(tmp_path / "keras.weights.h5")
    model = sequential(Embedding(5, 3))
    model.load_weights(tmp_path / "keras.weights.h5")
    np.testing.assert_array_equal(model.get_weights()[0], reference.get_weights()[0])


@pytest.mark.parametrize("layer", [lambda: Embedding(4, 3), lambda: Embedding(None, 3)])
def test_takes_no_file_of_a_keras_layer_of_another_shape(layer, tmp_path):
    sequential(keras.layers.Embedding(5, 3)).save_weights(tmp_path / "keras.weights.h5")
    with pytest.raises(ValueError, match=r"a static table of their shape.*\(5, 3\)") as error:
        sequential(layer()).load_weights(tmp_path / "keras.weights.h5")
    assert "damaged" not in str(error.value)


def test_takes_no_file_of_another_layer(tmp_path):
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="e")]).save_weights(
        tmp_path / "dense.weights.h5"
    )
    model = sequential(Embedding(5, 3, name="e"))
    with pytest.raises(ValueError, match="e"):
        model.load_weights(tmp_path / "dense.weights.h5")


def test_a_layer_that_was_not_built_is_told_so():
    with pytest.raises(RuntimeError, match="must be built before its table is loaded"):
        Embedding(5, 3).load_own_variables({"0": np.ones((5, 3))})


def test_a_table_that_does_not_fit_is_skipped_alone(tmp_path):
    """Also where a second table has the same path."""

    class Two(keras.Model):
        def __init__(self, rows):
            super().__init__()
            self.first = Embedding(rows, 2, name="t")
            self.second = Embedding(8, 2, name="t")

        def call(self, ids):
            return self.first(ids) + self.second(ids)

    saved, model = Two(5), Two(4)
    for each in (saved, model):
        each(np.array([[1]]))
    assert model.first.embeddings.path == model.second.embeddings.path
    saved.save_weights(tmp_path / "m.weights.h5")
    with pytest.warns(UserWarning, match="A total of 1 objects could not be loaded"):
        model.load_weights(tmp_path / "m.weights.h5", skip_mismatch=True)
    np.testing.assert_array_equal(model.second.embeddings.numpy(), saved.second.embeddings.numpy())


def test_refuses_a_file_with_two_rows_of_a_key():
    """As ranks wrote where one had trained rows of its own for keys of another."""
    saved, store = filled(), {}
    pieces = list(saved.table.export_pieces(10))
    saved.table.export_pieces = lambda _: iter([*pieces, pieces[0].of_rows(slice(1, 3))])
    save_table(saved, store)
    with pytest.raises(ValueError, match=r"must have a unique key.*Received: 7 rows of 5 keys"):
        load_table(table(), store)


SCRIPT = """
    import json, re, sys
    import keras
    import keras_sparse

    def peak_bytes():
        with open("/proc/self/status") as status:
            return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read()).group(1)) * 1024

    def reset_peak():
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")

    input_dim = json.loads(sys.argv[1])
    model = keras.Sequential([
        keras.Input((1,), dtype="int64"), keras_sparse.layers.Embedding(input_dim, 64, "sum")
    ])
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    model.optimizer.build(model.trainable_variables)
    table = model.layers[0].embeddings
    if input_dim is None:
        import numpy as np
        rows = np.ones((2**16, 64), "float32")
        for part in range(10):
            table.import_(np.arange(part, 10 * 2**16, 10), rows)
        del rows
    extra = {}
    for path in sys.argv[2:]:
        is_archive = path.endswith(".keras")
        steps = {
            "save": model.save if is_archive else model.save_weights,
            "load weights": model.load_weights,
        }
        for name, run in steps.items():
            reset_peak()
            before = peak_bytes()
            run(path)
            extra[f"{name} {path}"] = peak_bytes() - before
    print(json.dumps({"table": table.stats()["bytes"], "extra": extra}))
"""


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(
    ("input_dim", "names"),
    [(10 * 2**16, ["large.weights.h5"]), (None, ["large.weights.h5", "large.keras"])],
)
def test_saving_and_loading_take_little_memory_beside_the_table(input_dim, names, tmp_path):
    """But for `keras.saving.load_model`, where Keras reads a file whole if it takes the memory."""
    paths = [tmp_path / name for name in names]
    # Large blocks that are freed go back to the system: what the C library would keep of them is
    # another amount each time.
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(1 << 20))
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), json.dumps(input_dim), *paths],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    measured = json.loads(output.splitlines()[-1])
    assert measured["table"] > 300 << 20
    assert max(measured["extra"].values()) < 128 << 20, measured
    for path in paths:
        path.unlink()
