"""Tables that keep ages in seconds, in files: time goes on while nothing runs."""

import json
import time

import numpy as np
import pytest

from checkpoint_cases import content
from checkpoint_cases import edit_manifest
from checkpoint_cases import load
from checkpoint_cases import make_model
from checkpoint_cases import save
from checkpoint_cases import storage
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from eviction_cases import ages_of
from eviction_cases import make_table
from keras_sparse import GlobalStepEvict
from keras_sparse import TimeToLive
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import load_table
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import save_table
from keras_sparse.saving.table_format.saved_ages import latest
from keras_sparse.serving import apply_delta
from pairwise import each_pair

# No test takes as long, so that ages differ by less.
HOUR = 3600
AGES = {1: 0, 2: 3 * HOUR, 3: 7 * HOUR}
FORMS = ["store", "weights.h5", "keras", "checkpoint", "delta"]


def hours(variable):
    return {key: age // HOUR for key, age in ages_of(variable).items()}


def whole_hours(ages):
    return {key: age // HOUR for key, age in ages.items()}


@pytest.fixture(name="pass_hours")
def hours_that_pass(monkeypatch):
    """A function that lets hours pass, or the clock go back, for what reads files."""
    now = time.time

    def pass_hours(number):
        monkeypatch.setattr("time.time", lambda: now() + number * HOUR)

    yield pass_hours
    monkeypatch.undo()


def aged_model(eviction, **options):
    model = make_model(eviction=eviction, **options)
    age(tables(model)[0])
    return model


def age(variable, ages=AGES):
    rows = np.ones((len(ages), variable.output_dim))
    variable.import_(list(ages), rows, ages=list(ages.values()))


def save_and_load(model, other, form, folder):
    """Brings what a model has into another one."""
    if form == "store":
        store = {}
        save_table(tables(model)[0], store)
        load_table(tables(other)[0], store)
    elif form == "delta":
        save_checkpoint(model, folder / "first")
        # The rows of the base have been there for longer than those of the delta.
        age(tables(model)[0], {4: 5 * HOUR})
        load_checkpoint(other, save_delta(model, folder / "second"))
    else:
        load(other, save(model, folder, form))


@each_pair(form=FORMS, optimizer=["Adagrad", "Adam"], storage_type=[None, "DRAM_SSDHASH"])
def test_ages_come_back_over_any_tiers(optimizer, form, storage_type, tmp_path):
    model = aged_model(TimeToLive(9 * HOUR), optimizer=optimizer)
    tiers = storage(storage_type, tmp_path / "tiers")
    loaded = make_model(tiers, optimizer=optimizer, eviction=TimeToLive(4 * HOUR))
    save_and_load(model, loaded, form, tmp_path)
    assert hours(tables(loaded)[0]) == hours(tables(model)[0])
    assert content(loaded) == content(model)
    assert tables(loaded)[0].evict() == len(tables(model)[0].contains([3, 4]).nonzero()[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("to_seconds", [True, False])
def test_ages_of_another_unit_are_0(to_seconds, form, tmp_path):
    policies = [GlobalStepEvict(1000), TimeToLive(HOUR, at_save=False)]
    old, new = policies if to_seconds else reversed(policies)
    model, other = make_model(eviction=old), make_model(eviction=new)
    age(tables(model)[0], {1: 0, 2: 999} if to_seconds else AGES)
    save_and_load(model, other, form, tmp_path)
    (table, *_) = tables(other)
    assert table.num_rows == tables(model)[0].num_rows
    assert max(ages_of(table).values()) < (HOUR // 2 if to_seconds else 1)
    assert table.evict() == 0
    # And from there they age as any do.
    for step in range(3):
        train(other, step)
    ages = [ages_of(table)[key] for key in (1, 2)]
    assert max(ages) < HOUR // 2 if to_seconds else ages == [3, 3]
    assert content(other) != content(model)


def test_a_file_has_the_time_and_ages_go_on_from_it(pass_hours):
    variable, _ = make_table(TimeToLive(9 * HOUR))
    age(variable)
    before, store = int(time.time()), {}
    save_table(variable, store)
    header = json.loads(store["header"].tobytes())
    assert header["version"] == 5
    assert before <= header["ages_clock"] <= time.time()
    loaded, _ = make_table(TimeToLive(9 * HOUR))
    for passed in (0, 5, -5):
        pass_hours(passed)
        load_table(loaded, store)
        later = {key: each + max(0, passed) * HOUR for key, each in AGES.items()}
        assert hours(loaded) == whole_hours(later)
    pass_hours(5)
    load_table(loaded, store)
    assert loaded.evict() == 1


@pytest.mark.parametrize("age_there", [2**31, 2**32 - 1])
def test_an_age_beyond_all_is_still_one_after_more_time(age_there, pass_hours):
    variable, _ = make_table(TimeToLive(HOUR, at_save=False))
    age(variable, {1: age_there})
    store = {}
    save_table(variable, store)
    pass_hours(100)
    load_table(variable, store)
    assert variable.evict() == 1


def test_what_a_model_without_the_optimizer_takes_of_a_checkpoint_has_aged(pass_hours, tmp_path):
    path = save_checkpoint(aged_model(TimeToLive(9 * HOUR)), tmp_path / "saved")
    pass_hours(5)
    other = make_model(compiled=False, eviction=TimeToLive(9 * HOUR))
    load_checkpoint(other, path)
    assert hours(tables(other)[0]) == {key: each // HOUR + 5 for key, each in AGES.items()}
    assert tables(other)[0].evict() == 1


def test_time_passes_for_a_checkpoint_and_it_says_so(tmp_path):
    model = make_model(eviction=TimeToLive(HOUR))
    train_all_keys(model)
    path = save_checkpoint(model, tmp_path / "saved")
    fields = json.loads("\n".join(json.loads((path / "manifest.json").read_text())["manifest"]))
    assert fields["version"] == 3
    assert [table.get("ages_in_seconds") for table in fields["tables"]] == [True, None]
    assert abs(fields["tables"][0]["history"]["table_step"] - time.time()) < HOUR
    time.sleep(1.1)
    loaded = make_model(eviction=TimeToLive(HOUR))
    load_checkpoint(loaded, path)
    assert min(ages_of(tables(loaded)[0]).values()) >= 1
    # Of a machine whose clock is an hour ahead, its rows being as old as they are there.
    edit_manifest(path, _put_ahead)
    load_checkpoint(loaded, path)
    ages = list(ages_of(tables(loaded)[0]).values())
    assert HOUR <= min(ages) <= max(ages) < 2 * HOUR
    train(loaded, 1)
    assert min(ages_of(tables(loaded)[0]).values()) == 0
    load_checkpoint(loaded, save_checkpoint(model, tmp_path / "good"))
    assert max(ages_of(tables(loaded)[0]).values()) < HOUR


def _put_ahead(fields):
    fields["tables"][0]["history"]["table_step"] += HOUR


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam"])
def test_a_model_that_follows_deltas_has_their_ages(optimizer, tmp_path):
    options = {"optimizer": optimizer, "eviction": TimeToLive(6 * HOUR, at_save=False)}
    trained, followed = aged_model(**options), make_model(**options)
    load_checkpoint(followed, save_checkpoint(trained, tmp_path / "first"))
    for number in range(3):
        train(trained, number)
        if number == 1:
            assert tables(trained)[0].evict() == 1
        age(tables(trained)[0], {5000 + number: 4 * HOUR})
        apply_delta(followed, save_delta(trained, tmp_path / str(number)))
        assert content(followed) == content(trained)
        assert hours(tables(followed)[0]) == hours(tables(trained)[0])
    assert 3 not in ages_of(tables(followed)[0])


def test_the_latest_clock_is_that_of_the_least_time_ago():
    assert latest([7]) == 7
    assert latest([7, 9, 8]) == 9
    assert latest([2**32 - 2, 3, 2**32 - 1]) == 3
    assert latest([3, 2**32 - 2]) == 3
