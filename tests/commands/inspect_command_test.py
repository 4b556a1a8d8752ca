import json
import shutil

import h5py
import keras
import numpy as np
import pytest

import checkpoint_cases
import keras_sparse
from keras_sparse import saving
from keras_sparse.__main__ import main


def inspected(path, capsys, *options):
    assert main(["inspect", str(path), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def printed(path, capsys, *options):
    assert main(["inspect", str(path), *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
def test_counts_the_rows_of_a_checkpoint_and_of_a_delta(storage_type, tmp_path, capsys):
    option = checkpoint_cases.storage(storage_type, tmp_path / "tiers")
    model = checkpoint_cases.make_model(option)
    checkpoint_cases.train_all_keys(model)
    saving.save_checkpoint(model, tmp_path / "full", verbose=False)
    found = inspected(tmp_path / "full", capsys, "--verify")
    dynamic, static = found["tables"]
    assert (dynamic["records"], dynamic["input_dim"]) == (checkpoint_cases.NUM_KEYS, None)
    assert (static["records"], static["input_dim"]) == (checkpoint_cases.NUM_KEYS,) * 2
    assert dynamic["slots"] == static["slots"] == ["accumulator"]
    assert (dynamic["floats_a_row"], static["floats_a_row"]) == (8, 4)
    assert (found["kind"], found["step"], found["verified_tables"]) == ("checkpoint", 1, 2)
    files = [each for each in (tmp_path / "full").rglob("*") if each.is_file()]
    in_manifest = sum(each.stat().st_size for each in files if each.name != "manifest.json")
    assert found["bytes"] == in_manifest
    assert (dynamic["files_of_ssd_tier"] > 0) == (storage_type is not None)

    checkpoint_cases.train(model, seed=1)
    saving.save_delta(model, tmp_path / "delta", verbose=False)
    found = inspected(tmp_path / "delta", capsys)
    assert (found["kind"], found["step"]) == ("delta", 2)
    assert found["goes_on_from"].endswith("full")
    assert all(0 < each["records"] <= 16 and not each["are_all_rows"] for each in found["tables"])
    assert "changed rows alone" in printed(tmp_path / "delta", capsys)


def test_of_a_folder_it_is_the_last_one(tmp_path, capsys):
    model = checkpoint_cases.make_model()
    checkpoint_cases.fit(model, [keras_sparse.callbacks.Checkpoint(tmp_path, keep=2)], epochs=3)
    found = inspected(tmp_path, capsys)
    assert found["step"] == 30
    assert found["all_in_folder"][-1] == {"name": "step-000000030", "step": 30}
    lines = printed(tmp_path, capsys).splitlines()
    assert lines[0].startswith("checkpoint ")
    assert lines[1].startswith("step 30, ")
    assert f"the last of {len(found['all_in_folder'])} in its folder" in lines[2]


@pytest.mark.parametrize("name", ["m.weights.h5", "m.keras"])
def test_tables_of_a_weights_file(name, tmp_path, capsys):
    model = checkpoint_cases.make_model(admission=keras_sparse.CounterFilter(2))
    checkpoint_cases.train_all_keys(model)
    (model.save if name == "m.keras" else model.save_weights)(tmp_path / name)
    found = inspected(tmp_path / name, capsys)
    assert found["kind"] == "weights"
    assert [each["records"] for each in found["tables"]] == [0, checkpoint_cases.NUM_KEYS]
    assert [each["has_filter"] for each in found["tables"]] == [True, False]
    text = printed(tmp_path / name, capsys, "--verify")
    assert "below 3,000" in text
    assert "Every byte of 2 tables is as it was saved." in text


def model_with_a_group():
    tables = {name: keras_sparse.layers.Embedding(4, 2, "sum") for name in ("users", "items")}
    ids = {name: keras.Input((2,), dtype="int64", name=name) for name in tables}
    of_group = keras_sparse.layers.GroupEmbedding(tables, name="clicks")(ids)
    alone = keras_sparse.layers.Embedding(3, 2, "sum", name="shops")(ids["users"])
    return keras.Model(ids, keras.layers.Add()([*of_group.values(), alone]))


@pytest.mark.parametrize("name", ["m.weights.h5", "m.keras", "m.weights.json"])
def test_tables_of_a_file_go_by_their_names(name, tmp_path, capsys):
    model = model_with_a_group()
    if name == "m.weights.json":
        model.save_weights(tmp_path / name, max_shard_size=0.001)
    else:
        (model.save if name == "m.keras" else model.save_weights)(tmp_path / name)
    found = inspected(tmp_path / name, capsys)["tables"]
    assert {each["name"]: each["place"] for each in found} == {
        "shops": "/layers/embedding/vars",
        "clicks/users": "/layers/group_embedding/table_holders/table_holder/vars",
        "clicks/items": "/layers/group_embedding/table_holders/table_holder_1/vars",
    }
    assert "clicks/users " in printed(tmp_path / name, capsys)


def test_a_file_without_names_has_places_instead(tmp_path, capsys):
    path = tmp_path / "m.weights.h5"
    model_with_a_group().save_weights(path)
    with h5py.File(path, "a") as file:
        file.visititems(lambda _, group: group.attrs.clear())
    found = inspected(path, capsys)["tables"]
    assert [each["name"] for each in found] == [each["place"] for each in found]


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (keras_sparse.layers.Embedding(3, 2), "Every byte of 1 table is as it was saved."),
        (keras.layers.Dense(1), "no table of keras_sparse"),
    ],
)
def test_says_how_many_tables_a_model_has(layer, words, tmp_path, capsys):
    model = keras.Sequential([keras.Input((2,)), layer])
    model.save_weights(tmp_path / "m.weights.h5")
    assert words in printed(tmp_path / "m.weights.h5", capsys, "--verify")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path, "no manifest.json and no step-NUMBER"),
        (lambda path: path / "nothing.h5", "Nothing is at `path`, which"),
        (lambda path: path / "text.weights.h5", "must be a whole HDF5 file"),
    ],
    ids=["empty", "missing", "damaged"],
)
def test_what_is_none_is_an_error(make, words, tmp_path, capsys):
    (tmp_path / "text.weights.h5").write_text("no weights")
    assert main(["inspect", str(make(tmp_path))]) == 2
    assert words in capsys.readouterr().err


def test_damage_is_found_where_it_is_asked_for(tmp_path, capsys):
    model = checkpoint_cases.make_model()
    checkpoint_cases.train(model, seed=1)
    saving.save_checkpoint(model, tmp_path / "full", verbose=False)
    (rows,) = (tmp_path / "full").glob("rows-*.h5")
    content = bytearray(rows.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    shutil.move(rows, tmp_path / "aside")
    rows.write_bytes(content)
    assert main(["inspect", str(tmp_path / "full")]) == 0
    assert main(["inspect", str(tmp_path / "full"), "--verify"]) == 2
    assert "error" in capsys.readouterr().err


def test_counts_the_bytes_of_rows_in_fewer_bits(tmp_path, capsys):
    dtypes = {"row_dtype": "bfloat16", "slot_dtype": "float32"}
    table = keras_sparse.layers.Embedding(None, 7, name="odd", **dtypes)
    both = keras_sparse.layers.Embedding(
        9, 7, name="both", row_dtype="float16", slot_dtype="bfloat16"
    )
    plain = keras_sparse.layers.Embedding(9, 7, name="plain")
    ids = keras.Input((), dtype="int64")
    outputs = keras.layers.Add()([layer(ids) for layer in (table, both, plain)])
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    model.train_on_batch(np.arange(5), np.zeros((5, 7)))
    saving.save_checkpoint(model, tmp_path / "a", verbose=False)
    model.save_weights(tmp_path / "m.weights.h5")
    # 7 elements in 16 bits take 14 bytes, and 16 in whole words; 28 are 7 in float32.
    for name in ("a", "m.weights.h5"):
        found = {each["name"]: each for each in inspected(tmp_path / name, capsys)["tables"]}
        found = {key.split("/")[0]: each for key, each in found.items()}
        assert {key: each["bytes_a_row"] for key, each in found.items()} == {
            "odd": 16 + 28, "both": 16 + 16, "plain": 28 + 28,
        }  # fmt: skip
        assert {each["floats_a_row"] for each in found.values()} == {14}
        assert (found["odd"]["row_dtype"], found["odd"]["slot_dtype"]) == (*dtypes.values(),)
        page = tmp_path / "page.html"
        printed(tmp_path / name, capsys, "--html", str(page))
        for text in (printed(tmp_path / name, capsys), page.read_text()):
            assert "bfloat16, slots float32" in text
            assert "float16, slots bfloat16" in text
            assert all(size in text for size in ("220 B", "288 B", "504 B"))
