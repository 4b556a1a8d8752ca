"""A damaged file is a clear error, and nothing in the model changes."""

import shutil
import warnings
import zlib

import h5py
import keras
import numpy as np
import pytest

import checks
import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.saving import save_table
from keras_sparse.saving.table_format.table_header import TableHeader

IDS = np.arange(12).reshape(6, 2) % 8
TARGETS = np.ones((6, 1))


class TwoTables(keras.Model):
    """Keras loads `before`, then the tables, then `behind`."""

    def __init__(self):
        super().__init__()
        self.before = keras.layers.Dense(3, name="before")
        self.fixed = Embedding(8, 3, "sum", name="fixed")
        self.dynamic = Embedding(None, 3, "sum", name="dynamic")
        self.behind = keras.layers.Dense(1, name="behind")

    def call(self, inputs):
        rows = self.fixed(inputs) + self.dynamic(inputs)
        return self.behind(rows + self.before(keras.ops.cast(inputs, "float32")))


def trained_model(steps):
    model = TwoTables()
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    for _ in range(steps):
        model.train_on_batch(IDS, TARGETS)
    return model


def content(model):
    tables = (model.fixed.embeddings, model.dynamic.embeddings)
    others = [v for layer in (model.before, model.behind) for v in layer.variables]
    others += model.optimizer.variables
    return [*map(checks.table_content, tables), [np.array(v).tolist() for v in others]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A good file of a model trained for two steps."""
    path = tmp_path_factory.mktemp("saved") / "good.weights.h5"
    trained_model(2).save_weights(path)
    return path


@pytest.fixture
def damaged(saved, tmp_path):
    return shutil.copy(saved, tmp_path / "damaged.weights.h5")


def assert_load_changes_nothing(path, error, words):
    model = trained_model(1)
    before = content(model)
    with pytest.raises(error, match=words):
        model.load_weights(path)
    assert content(model) == before


def dataset_bytes(path, table, name):
    with h5py.File(path) as file:
        dataset = file[f"{table}/vars/{name}"].id
        return dataset.get_offset(), dataset.get_storage_size()


CHUNKS = ["keys_000000", "records_000000"]


@pytest.mark.parametrize("name", [*CHUNKS, "header", "header_crc32"])
@pytest.mark.parametrize("table", ["fixed", "dynamic"])
def test_any_flipped_bit_of_a_table_is_found_before_a_layer_changes(table, name, damaged):
    first, size = dataset_bytes(damaged, table, name)
    for place, bit in [(0, 0), (size // 2, 3), (size - 1, 7)]:
        content_of_file = bytearray(damaged.read_bytes())
        content_of_file[first + place] ^= 1 << bit
        damaged.write_bytes(content_of_file)
        with pytest.raises(ValueError, match=rf"checksum.*File: .*damaged.*table: /{table}/vars"):
            keras_sparse.saving.verify(damaged)
        content_of_file[first + place] ^= 1 << bit
        damaged.write_bytes(content_of_file)
    content_of_file[first] ^= 1
    damaged.write_bytes(content_of_file)
    assert_load_changes_nothing(damaged, ValueError, "checksum")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_an_error(part, damaged):
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: int(len(whole) * part)])
    assert_load_changes_nothing(damaged, OSError, "must be a whole HDF5 file.*damaged.weights.h5")


@pytest.mark.parametrize("group", ["behind", "fixed/vars"])
def test_a_name_that_is_no_text_is_an_error(group, damaged):
    with h5py.File(damaged, "a") as file:
        h5py.h5g.create(file[group].id, b"\xfe")
    assert_load_changes_nothing(damaged, OSError, r"must be a whole HDF5 file.*\\xfe' is no name")


def rename(file, group, old, new):
    with h5py.File(file, "a") as opened:
        opened[group].move(old, new)


def replace(file, name, value):
    with h5py.File(file, "a") as opened:
        del opened[name]
        if isinstance(value, dict):
            opened.create_group(name)
        elif value is not None:
            opened[name] = value


DATASETS = [
    *((f"dynamic/vars/{n}", None, f"must have all its chunks.*{n}") for n in CHUNKS),
    *(
        (f"fixed/vars/{n}", value, rf"must have arrays.*Received: `{n}`.*damaged.*: /fixed/vars")
        for n in ("header", "header_crc32", "keys_000000")
        for value in ({}, h5py.Empty("int64"))
    ),
    ("fixed/vars/records_000000", np.zeros((7, 6), "float32"), r"have the shapes.*\(7, 6\)"),
]


@pytest.mark.parametrize(("name", "value", "words"), DATASETS)
def test_a_dataset_that_is_not_what_the_header_says_is_an_error(name, value, words, damaged):
    replace(damaged, name, value)
    assert_load_changes_nothing(damaged, ValueError, words)


def test_a_static_table_without_all_its_rows_is_an_error():
    table = keras_sparse.EmbeddingVariable(3, 2)
    store = {}
    save_table(table, store)
    header = TableHeader.read(store)
    keys, records = store["keys_000000"], store["records_000000"]
    fewer = {}
    part = keras_sparse.EmbeddingVariable(None, 2)
    part.import_(keys[:2], records[:2])
    save_table(part, fewer)
    chunks = TableHeader.read(fewer).chunks
    type(header)(**{**vars(header), "chunks": chunks}).write(fewer)
    with pytest.raises(ValueError, match=r"must hold all its rows.*2 rows of 3"):
        keras_sparse.saving.load_table(table, fewer)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda file: rename(file, "optimizer/vars", "1", "!"), "Adagrad"),
        (lambda file: rename(file, "behind/vars", "0", "O"), "behind"),
        (lambda file: replace(file, "behind/vars/1", np.zeros(2, "float32")), "behind"),
        (lambda file: replace(file, "optimizer/vars/2", np.zeros((7, 7), "float32")), "Adagrad"),
        (lambda file: rename(file, "/", "behind", "last"), "behind"),
    ],
    ids=["optimizer_name", "dense_name", "dense_shape", "slot_shape", "layer_name"],
)
def test_what_keras_cannot_load_of_a_file_changes_nothing(change, name, damaged):
    """It says so after it has loaded all the rest."""
    change(damaged)
    assert_load_changes_nothing(damaged, ValueError, f"(?s)could not be loaded.*{name}")


def test_a_warning_of_loading_is_shown_once(saved):
    """Also where it is made an error, with nothing loaded."""
    model = TwoTables()
    model.compile(keras_sparse.optimizers.Adam(0.1), loss="mse", run_eagerly=True)
    model.train_on_batch(IDS, TARGETS)
    before = content(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((UserWarning, ValueError), match="slots saved with"):
            model.load_weights(saved)
    assert content(model) == before
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        model.load_weights(saved)
    texts = [str(each.message) for each in shown]
    assert len(texts) == len(set(texts))
    assert sum("slots saved with" in text for text in texts) == 2


def test_a_later_version_is_an_error_that_names_it(damaged):
    with h5py.File(damaged, "a") as file:
        text = file["fixed/vars/header"][:].tobytes().replace(b'"version": 2', b'"version": 7')
    replace(damaged, "fixed/vars/header", np.frombuffer(text, np.uint8))
    replace(damaged, "fixed/vars/header_crc32", np.uint32(zlib.crc32(text)))
    assert_load_changes_nothing(damaged, ValueError, "must be of version 2.*Received: version 7")


def test_verify_counts_the_tables_of_a_good_file(saved, tmp_path):
    assert keras_sparse.saving.verify(saved) == 2
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save_weights(
        tmp_path / "dense.weights.h5"
    )
    assert keras_sparse.saving.verify(tmp_path / "dense.weights.h5") == 0


@pytest.mark.parametrize("name", ["model.weights.h5", "model.weights.json"])
def test_a_whole_file_is_read_for_its_checksums_twice(name, tmp_path, monkeypatch):
    """Once before Keras loads a layer, then chunk by chunk as the rows are taken over."""
    saved = tmp_path / name
    trained_model(2).save_weights(saved, max_shard_size=1 if name.endswith("json") else None)
    reads = []
    crc32 = zlib.crc32
    monkeypatch.setattr(zlib, "crc32", lambda data: reads.append(len(data)) or crc32(data))
    keras_sparse.saving.verify(saved)
    once = len(reads)
    model = trained_model(1)
    reads.clear()
    model.load_weights(saved)
    assert len(reads) <= 2 * once + 4  # and a header for each table


@pytest.mark.parametrize("name", ["model.weights.h5", "model.weights.json"])
def test_each_byte_of_a_table_is_read_once_without_verification(name, tmp_path, monkeypatch):
    saved = tmp_path / name
    model = trained_model(2)
    model.save_weights(saved, max_shard_size=1 if name.endswith("json") else None)
    reads = []
    crc32 = zlib.crc32
    monkeypatch.setattr(zlib, "crc32", lambda data: reads.append(bytes(data)) or crc32(data))
    keras_sparse.saving.verify(saved)
    once = [each for each in reads if not each.startswith(b"{")]  # no header
    loaded = trained_model(1)
    reads.clear()
    keras_sparse.saving.load_weights(loaded, saved, verify=False)
    assert [each for each in reads if not each.startswith(b"{")] == once
    assert content(loaded) == content(model)


def test_a_damaged_chunk_without_verification_is_an_error_where_it_is_read(saved, damaged):
    first, _ = dataset_bytes(damaged, "dynamic", "records_000000")
    content_of_file = bytearray(damaged.read_bytes())
    content_of_file[first] ^= 1
    damaged.write_bytes(content_of_file)
    model, whole = trained_model(1), trained_model(1)
    whole.load_weights(saved)
    before = content(model)
    with pytest.raises(ValueError, match=r"checksum.*`records_000000`"):
        keras_sparse.saving.load_weights(model, damaged, verify=False)
    fixed, dynamic, others = content(model)
    assert fixed == content(whole)[0]  # Keras loads it before
    assert (len(dynamic), others) == (0, before[2])


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_is_missing_is_found_without_reading_any(name, damaged):
    with h5py.File(damaged, "a") as file:
        del file[f"dynamic/vars/{name}"]
    model = trained_model(1)
    before = content(model)
    with pytest.raises(ValueError, match=f"must have all its chunks.*`{name}`"):
        keras_sparse.saving.load_weights(model, damaged, verify=False)
    assert content(model) == before


@pytest.mark.parametrize("load", [keras.Model.load_weights, keras.saving.load_weights])
@pytest.mark.parametrize("name", ["m.weights.h5", "m.weights.json", "m.keras"])
def test_all_or_nothing_of_any_file_is_loaded_by_method_and_function(name, load, tmp_path):
    model = trained_model(2)
    if name.endswith(".keras"):
        model.save(tmp_path / name)
    else:
        shards = {"max_shard_size": 1e-3} if name.endswith(".json") else {}
        model.save_weights(tmp_path / name, **shards)
    record = next(iter(model.dynamic.embeddings.export()))[1][0].tobytes()
    (path,) = [path for path in tmp_path.iterdir() if record in path.read_bytes()]
    whole = path.read_bytes()
    loaded = trained_model(1)
    before = content(loaded)
    path.write_bytes(whole.replace(record, bytes(len(record))))
    with pytest.raises(ValueError, match="damaged"):
        load(loaded, tmp_path / name)
    assert content(loaded) == before
    path.write_bytes(whole)
    load(loaded, tmp_path / name)
    assert content(loaded) == content(model)


# What layers keep beside variables stays where something of the file cannot be loaded.
# Of the other paths by which Keras then looks for the layer.
@pytest.mark.filterwarnings("ignore:Skipping nested container")
@pytest.mark.parametrize("group", ["integer_lookup", "integer_lookup_1"])
def test_a_vocabulary_that_cannot_be_loaded_changes_nothing(group, tmp_path):
    def make(ids):
        inputs = keras.Input((2,), dtype="int64")
        lookups = [keras_sparse.layers.IntegerLookup(50) for _ in range(2)]
        tables = [Embedding(51, 3, "sum") for _ in lookups]
        rows = [table(lookup(inputs)) for lookup, table in zip(lookups, tables, strict=True)]
        for lookup in lookups:
            lookup(ids, training=True)
        return keras.Model(inputs, rows), lookups, tables

    def content(lookups, tables):
        return [each.get_vocabulary() for each in lookups], [
            checks.table_content(each.embeddings) for each in tables
        ]

    path = tmp_path / "m.weights.h5"
    make(IDS + 30)[0].save_weights(path)
    with h5py.File(path, "a") as file:
        file[f"layers/{group}/vars/keys"][:] = 3
    model, *layers = make(IDS)
    before = content(*layers)
    with pytest.raises(ValueError, match=r"must have each key once\. Received: key 3 again"):
        model.load_weights(path)
    assert content(*layers) == before


@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_what_a_layer_makes_of_its_variables_stays(tmp_path):
    def make(scale):
        numbers, ids = keras.Input((2,)), keras.Input((2,), dtype="int64")
        norm = keras.layers.Normalization()
        norm.adapt(scale * np.arange(12.0).reshape(6, 2))
        rows = Embedding(20, 3, "sum", seed=1)(ids)
        joined = keras.layers.Concatenate()([norm(numbers), rows])
        return keras.Model([numbers, ids], keras.layers.Dense(1, name="last")(joined)), norm

    path = tmp_path / "m.weights.h5"
    make(1)[0].save_weights(path)
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/0"]
    model, norm = make(100)
    before = np.array(norm.mean)
    with pytest.raises(ValueError, match=r"(?s)could not be loaded.*last"):
        model.load_weights(path)
    np.testing.assert_array_equal(norm.mean, before)
