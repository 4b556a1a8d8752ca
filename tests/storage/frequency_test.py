"""Tables that count in how many steps each row had a gradient."""

import functools
import json
import zlib

import numpy as np
import pytest
import tensorflow as tf

from checkpoint_cases import storage as tiers
from checkpoint_cases import STORAGE_TYPES
from eviction_cases import frequencies_of
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import make_table
from eviction_cases import step
from eviction_cases import table_of
from eviction_cases import train
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse.saving import load_table
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_table


def counts(first, last):
    """`{key: steps}` of what `fit` does."""
    of_keys = {}
    for begin in range(first, last, 16):
        for key in np.unique(IDS[begin : begin + 16]).tolist():
            of_keys[key] = of_keys.get(key, 0) + 1
    return of_keys


make_counting_model = functools.partial(make_model, None, frequency=True)


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
@pytest.mark.parametrize("storage_type", STORAGE_TYPES)
def test_counts_steps_over_any_tiers(storage_type, optimizer, tmp_path):
    model = make_counting_model(optimizer, tiers(storage_type, tmp_path))
    train(model, 0, 256)
    model.predict_on_batch(IDS)
    model.test_on_batch(IDS, IDS[:, :1])
    assert frequencies_of(table_of(model)) == counts(0, 256)
    assert max(counts(0, 256).values()) > 10


@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
def test_statistics_count_rows_by_their_frequencies(storage_type, tmp_path):
    model = make_counting_model(storage=tiers(storage_type, tmp_path))
    layer = model.get_layer("items")
    assert layer.stats(frequencies=True)["frequencies"] == {}
    assert "frequencies" not in layer.stats()
    train(model, 0, 256)
    layer.assign([-7, -8], np.ones((2, 4)))
    expected = {0: 2}
    for steps in counts(0, 256).values():
        least = 2 ** int(np.log2(steps))
        expected[least] = expected.get(least, 0) + 1
    assert max(expected) >= 8
    assert layer.stats(frequencies=True)["frequencies"] == expected
    most = np.array([2**32 - 1, 2**31, 2**31 - 1, 0], np.uint32)
    table = EmbeddingVariable(None, 1, frequency=True)
    table.import_(np.arange(4), np.ones((4, 1)), frequencies=most)
    of_table = table.stats(frequencies=True)["frequencies"]
    assert list(of_table) == [0, *(2**bit for bit in range(32))]
    assert {least: number for least, number in of_table.items() if number} == {
        0: 1,
        2**30: 1,
        2**31: 2,
    }


@pytest.mark.parametrize("name", ["ages", "frequencies"])
@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        (np.array([3, -5]), ValueError, "Received: -5 at position 1"),
        (np.array([2**40, 3]), ValueError, "Received: 1099511627776 at position 0"),
        ([2**32, 3], ValueError, "Received: 4294967296 at position 0"),
        (np.array([5.5, 3]), TypeError, "Received: .* of dtype float64"),
    ],
)
def test_import_refuses_what_is_no_count(values, error, words, name):
    table = EmbeddingVariable(None, 1, eviction=GlobalStepEvict(9), frequency=True)
    with pytest.raises(error, match=f"`{name}` must be .*{words}"):
        table.import_([1, 2], np.ones((2, 1)), **{name: values})
    assert table.num_rows == 0


def test_a_table_that_keeps_none_has_none_in_its_statistics():
    assert EmbeddingVariable(None, 1).stats(frequencies=True)["frequencies"] is None
    assert EmbeddingVariable(5, 1).stats(frequencies=True)["frequencies"] is None


def test_a_file_has_them_and_one_of_before_is_as_ever():
    for options, version in [
        ({"frequency": True}, 5),
        ({"frequency": True, "eviction": GlobalStepEvict(9)}, 5),
        ({"eviction": GlobalStepEvict(9)}, 4),
        ({}, 2),
    ]:
        variable, optimizer = make_table(**{"eviction": None, **options})
        for ids in ([1, 2, 2], [1]):
            step(variable, optimizer, ids)
        store = {}
        save_table(variable, store)
        header = json.loads(store["header"].tobytes())
        assert header["version"] == version
        loaded, _ = make_table(None, frequency=True)
        load_table(loaded, store)
        if not variable.table.metadata.frequencies:
            assert "frequencies" not in header
            assert frequencies_of(loaded) == {1: 0, 2: 0}
            continue
        assert header["frequencies"] == [zlib.crc32(store["frequencies_000000"].data)]
        assert frequencies_of(loaded) == {1: 2, 2: 1}
        plain, _ = make_table(None)
        load_table(plain, store)
        assert plain.contains([1, 2]).all()
        store["frequencies_000000"] = store["frequencies_000000"] + 1
        with pytest.raises(ValueError, match=r"`frequencies_000000` with CRC-32"):
            load_table(loaded, store)
        assert frequencies_of(loaded) == {1: 2, 2: 1}


def test_an_older_reader_is_told_that_a_checkpoint_is_newer(tmp_path):
    """Records have a word more, which it would take for the rows' ages."""
    for frequency, version in [(False, 1), (True, 3)]:
        saved = save_checkpoint(make_model(frequency=frequency), tmp_path / str(version))
        content = json.loads((saved / "manifest.json").read_text())
        manifest = json.loads("\n".join(content["manifest"]))
        assert manifest["version"] == version
        assert manifest["tables"][0].get("keeps_frequencies", False) == frequency


def test_rows_are_imported_with_or_without_them():
    variable, optimizer = make_table(None, frequency=True)
    step(variable, optimizer, [1, 2])
    variable.import_([2, 3], np.ones((2, 1)))
    assert frequencies_of(variable) == {1: 1, 2: 1, 3: 0}
    variable.import_([2, 3], np.ones((2, 1)), frequencies=[7, 2**32 - 1])
    step(variable, optimizer, [2, 3])
    assert frequencies_of(variable) == {1: 1, 2: 8, 3: 2**32 - 1}
    variable.assign([1], [[4.0]])
    assert frequencies_of(variable)[1] == 1
    variable.erase([2])
    step(variable, optimizer, [2])
    assert frequencies_of(variable)[2] == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`frequencies` must have one number"):
        variable.import_([2, 3], np.ones((2, 1)), frequencies=[1])


def test_pieces_have_what_is_asked_for():
    variable, optimizer = make_table(GlobalStepEvict(9))
    step(variable, optimizer, [1])
    ((_, _, ages, frequencies),) = variable.export(with_ages=True, with_frequencies=True)
    assert (ages.tolist(), frequencies) == ([0], None)
    assert [len(piece) for piece in variable.export(with_frequencies=True)] == [3]
