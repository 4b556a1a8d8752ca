"""A model in use is brought to a later state in place, and is as if it had been loaded."""

import threading
import tracemalloc

import keras
import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import NUM_KEYS
from checkpoint_cases import storage
from checkpoint_cases import STORAGE_TYPES
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse import native
from keras_sparse.optimizers import Adagrad
from keras_sparse.saving import CheckpointDamagedError
from keras_sparse.saving import follow
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving.checkpoint import apply_delta as apply_delta_module
from keras_sparse.serving import apply_delta

IDS = np.arange(2 * NUM_KEYS).reshape(-1, 2) % (NUM_KEYS - 1)


def loaded(path, *args, **options):
    model = make_model(*args, **options)
    load_checkpoint(model, path)
    return model


@pytest.mark.parametrize(
    ("storage_type", "optimizer"),
    [
        *((None, each) for each in ("Adagrad", "SGD", "LazyAdam")),
        *((t, "Adam") for t in STORAGE_TYPES),
    ],
)
def test_deltas_one_by_one_or_several_at_once(storage_type, optimizer, tmp_path):
    trained = make_model(optimizer=optimizer)
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    followed = loaded(
        tmp_path / "first", storage(storage_type, tmp_path / "tiers"), optimizer=optimizer
    )
    for number in range(3):
        train(trained, number)
        keras_sparse.ops.erase_rows([tables(trained)[0]], [np.array([number, 7 * number])])
        train(trained, number + 10)
        info_path = save_delta(trained, tmp_path / f"{number}")
        if number != 0:  # the next brings this one
            info = apply_delta(followed, info_path)
            assert (info.step, info.is_delta) == (3 + 2 * number, True)
            assert content(followed) == content(trained)
            np.testing.assert_array_equal(
                followed.predict_on_batch(IDS), trained.predict_on_batch(IDS)
            )
    # What was brought to a state in place goes on from it as what was loaded.
    again = loaded(tmp_path / "2", optimizer=optimizer)
    for model in (followed, again):
        train(model, 99)
    assert content(followed) == content(again)


def test_of_a_checkpoint_that_links_the_files_of_the_state_only_what_has_come_is_read(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    followed = loaded(tmp_path / "first")
    train(trained, 1)
    apply_delta(followed, save_delta(trained, tmp_path / "delta"))
    train(trained, 2)
    second = save_checkpoint(trained, tmp_path / "second")
    for file in (tmp_path / "first").glob("rows-*.h5"):
        file.write_bytes(bytes(file.stat().st_size))  # nothing could be read of it
    assert not apply_delta(followed, second).is_delta
    assert content(followed) == content(trained)


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
def test_a_model_without_optimizer_follows_what_moves_by_gradients_alone(optimizer, tmp_path):
    trained = make_model(optimizer=optimizer)
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    followed = loaded(tmp_path / "first", compiled=False)
    train(trained, 1)
    path = save_delta(trained, tmp_path / "delta")
    if optimizer == "Adagrad":
        apply_delta(followed, path)
        assert [each.record_floats for each in tables(followed)] == [4, 2]
    else:
        before = followed.predict_on_batch(IDS)
        with pytest.raises(ValueError, match="moves rows without a gradient"):
            apply_delta(followed, path)
        np.testing.assert_array_equal(followed.predict_on_batch(IDS), before)
        load_checkpoint(followed, path)
    np.testing.assert_array_equal(followed.predict_on_batch(IDS), trained.predict_on_batch(IDS))


def test_what_does_not_go_on_is_refused_and_changes_nothing(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    train(trained, 1)
    save_delta(trained, tmp_path / "1")
    train(trained, 2)
    save_delta(trained, tmp_path / "2")

    def refused(model, path, error=ValueError, match="must build on the state that the model"):
        before = content(model)
        with pytest.raises(error, match=match):
            apply_delta(model, path)
        assert content(model) == before

    refused(make_model(), tmp_path / "1")  # never loaded
    refused(loaded(tmp_path / "2"), tmp_path / "1")  # back
    changed = loaded(tmp_path / "first")
    train(changed, 3)
    refused(changed, tmp_path / "1")
    fresh_slots = loaded(tmp_path / "first", compiled=False)
    fresh_slots.compile(keras_sparse.optimizers.Adagrad(0.05), loss="mse")
    with pytest.raises(ValueError, match="must build on"):
        apply_delta(fresh_slots, tmp_path / "1")
    by_hand = loaded(tmp_path / "first")
    tables(by_hand)[0].import_(np.array([1]), np.ones((1, 4)))
    refused(by_hand, tmp_path / "1")
    other = make_model()
    train_all_keys(other)
    save_checkpoint(other, tmp_path / "other")
    refused(loaded(tmp_path / "other"), tmp_path / "1")
    refused(loaded(tmp_path / "first"), tmp_path / "nothing", FileNotFoundError, "with a manifest")
    with pytest.raises(TypeError, match="must be a keras"):
        apply_delta(keras.layers.Dense(1), tmp_path / "1")


KEPT = {
    "steps": {"eviction": keras_sparse.GlobalStepEvict(6)},
    "seconds": {"eviction": keras_sparse.TimeToLive(1000)},
    "frequencies": {"frequency": True},
    "all": {"eviction": keras_sparse.GlobalStepEvict(6), "frequency": True},
    "nothing": {},
}


def make_kept(optimizer, options):
    """A model of a table that keeps something of its rows."""
    layer = keras_sparse.layers.Embedding(None, 4, "sum", seed=1, name="items", **options)
    ids = keras.Input((2,), dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1)(layer(ids)))
    if optimizer is not None:
        model.compile(optimizer, loss="mse", run_eagerly=True)
    return model


def kept(model):
    """All rows in the order of their keys: a matrix of key, row, age and frequency."""
    pieces = []
    for keys, records, *words in model.layers[1].export(with_ages=True, with_frequencies=True):
        columns = [np.zeros(len(keys)) if each is None else each for each in words]
        pieces.append(np.column_stack([keys, records[:, :4], *columns]))
    rows = np.concatenate(pieces)
    return rows[np.argsort(rows[:, 0])]


@pytest.mark.parametrize(
    ("of_training", "of_server", "storage_type"),
    [
        *((each, each, "DRAM_SSDHASH") for each in KEPT),
        ("all", "all", None),
        ("all", "nothing", "DRAM_SSDHASH"),
        ("nothing", "all", "DRAM_SSDHASH"),
        ("seconds", "steps", None),
    ],
)
def test_what_a_server_without_optimizer_keeps_of_rows_is_that_of_the_training(
    of_training, of_server, storage_type, tmp_path
):
    trained = make_kept(Adagrad(0.05), KEPT[of_training])
    tiers = {"storage": storage(storage_type, tmp_path / "tiers")}
    trained.train_on_batch(IDS, np.ones(len(IDS)))
    save_checkpoint(trained, tmp_path / "first")
    server = make_kept(None, KEPT[of_server] | tiers)
    load_checkpoint(server, tmp_path / "first")
    for number in range(3):
        for first in (number, number + 2):
            trained.train_on_batch(IDS[first : first + 2], np.ones(2))
        keras_sparse.ops.erase_rows([tables(trained)[0]], [np.array([number])])
        path = save_delta(trained, tmp_path / f"{number}")
        if number == 1:  # the next brings this one
            continue
        apply_delta(server, path)
        again = make_kept(None, KEPT[of_server])
        load_checkpoint(again, path)
        # Seconds go by.
        tolerance = {"atol": 2} if of_server == "seconds" else {"atol": 0, "rtol": 0}
        np.testing.assert_allclose(kept(server), kept(again), **tolerance)
        np.testing.assert_array_equal(server.predict_on_batch(IDS), trained.predict_on_batch(IDS))


def test_a_table_with_slots_of_its_own_that_keeps_ages_is_refused(tmp_path):
    trained = make_kept(Adagrad(0.05), KEPT["steps"])
    trained.train_on_batch(IDS, np.ones(len(IDS)))
    save_checkpoint(trained, tmp_path / "first")
    other = make_kept(Adagrad(0.05, epsilon=1e-3), KEPT["steps"])
    load_checkpoint(other, tmp_path / "first")
    trained.train_on_batch(IDS[:3], np.ones(3))
    with pytest.raises(ValueError, match="must build on"):
        apply_delta(other, save_delta(trained, tmp_path / "1"))


def test_promoted_rows_are_still_those_that_were_loaded(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    tiers = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "tiers", ["64kB", "1MB"])
    followed = loaded(tmp_path / "first", tiers, compiled=False)
    table = tables(followed)[0]
    keys = np.arange(100)
    assert table.promote(keys) > 0
    assert table.promote(keys) == 0
    train(trained, 1)
    apply_delta(followed, save_delta(trained, tmp_path / "1"))
    np.testing.assert_array_equal(followed.predict_on_batch(IDS), trained.predict_on_batch(IDS))
    with pytest.raises(TypeError, match="`keys` must be integers"):
        table.promote([0.5])


def test_damage_is_found_before_anything_changes(tmp_path):
    trained = make_model()
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "first")
    train(trained, 1)
    delta = save_delta(trained, tmp_path / "1")
    (file,) = delta.glob("rows-*.h5")
    good = file.read_bytes()
    followed = loaded(tmp_path / "first")
    before = content(followed)
    records = next(iter(tables(trained)[1].export()))[1].tobytes()
    assert len(records) > 0
    for begin in range(0, len(good), len(good) // 12):
        file.write_bytes(good[:begin] + bytes([good[begin] ^ 1]) + good[begin + 1 :])
        try:
            apply_delta(followed, delta)
        except CheckpointDamagedError:
            assert content(followed) == before
        else:  # a byte that says nothing
            assert content(followed) == content(trained)
            followed = loaded(tmp_path / "first")
    file.write_bytes(good)


@pytest.mark.parametrize("most_tables", [0, 1, 4])
def test_memory_holds_the_changes_of_few_tables(most_tables, tmp_path, monkeypatch):
    ids = keras.Input((), dtype="int64")
    embeddings = [keras_sparse.layers.Embedding(None, 64, name=f"t{i}") for i in range(4)]
    model = keras.Model(ids, keras.layers.Add()([each(ids) for each in embeddings]))
    for each in embeddings:
        each.assign([0], np.zeros((1, 64)))
    save_checkpoint(model, tmp_path / "first")
    followed = keras.models.clone_model(model)
    load_checkpoint(followed, tmp_path / "first")
    for each in embeddings:
        each.assign(np.arange(4000), np.ones((4000, 64)))
    delta = save_delta(model, tmp_path / "delta")
    num_bytes = 4000 * (8 + 4 * 64)
    monkeypatch.setattr(apply_delta_module, "_MOST_KEPT_BYTES", most_tables * num_bytes)
    tracemalloc.start()
    apply_delta(followed, delta)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(1, most_tables) * num_bytes < peak < (2.5 + most_tables) * num_bytes
    assert content(followed) == content(model)


def test_a_follower_whose_files_go_while_it_changes_loads_a_whole_state(tmp_path, monkeypatch):
    trained = make_model()
    train_all_keys(trained)
    folder = tmp_path / "run"
    save_checkpoint(trained, folder / "step-000000001")
    with follow(followed := make_model(), folder, every=1000) as follower:
        before = content(trained)
        train(trained, 1)
        save_delta(trained, folder / "step-000000002-delta")

        def fail(*args):
            raise FileNotFoundError("gone")

        monkeypatch.setattr(native, "apply_changes", fail)
        assert follower.look()
        assert (follower.step, content(followed)) == (1, before)
        monkeypatch.undo()
        assert follower.look()
        assert (follower.step, content(followed)) == (2, content(trained))


def test_requests_see_one_published_state_of_each_table(tmp_path):
    """Predictions of one table each, from two threads, while six deltas come."""
    trained = make_model(optimizer="Adam")
    train_all_keys(trained)
    save_checkpoint(trained, tmp_path / "0")
    followed = loaded(tmp_path / "0", optimizer="Adam")
    ids = np.arange(NUM_KEYS)
    states = []
    paths = []
    for number in range(1, 7):
        states.append(keras_sparse.ops.lookup([tables(trained)[0]], [ids])[0].numpy())
        train(trained, number, num_samples=500)
        paths.append(save_delta(trained, tmp_path / f"{number}"))
    states.append(keras_sparse.ops.lookup([tables(trained)[0]], [ids])[0].numpy())
    seen = [set(), set()]
    problems = []
    is_done = threading.Event()

    def read(seen):
        state = 0
        while not is_done.is_set():
            rows = keras_sparse.ops.lookup([tables(followed)[0]], [ids])[0].numpy()
            while state < len(states) and not np.array_equal(rows, states[state]):
                state += 1
            if state == len(states):
                problems.append("rows of no state, or of an earlier one")
                return
            seen.add(state)

    threads = [threading.Thread(target=read, args=(each,)) for each in seen]
    for thread in threads:
        thread.start()
    for path in paths:
        apply_delta(followed, path)
    is_done.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert all(len(each) > 1 for each in seen)
