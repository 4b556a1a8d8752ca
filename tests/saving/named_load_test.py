"""Files and checkpoints are loaded by the names of layers where models differ."""

import contextlib

import h5py
import keras
import numpy as np
import pytest

import keras_sparse
from checkpoint_cases import compile_eagerly
from checkpoint_cases import content_by_names as content
from checkpoint_cases import features
from checkpoint_cases import FEW_IDS
from checkpoint_cases import FORMS
from checkpoint_cases import layer_rows
from checkpoint_cases import load
from checkpoint_cases import save
from checkpoint_cases import towers
from checkpoint_cases import trained
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta

pytestmark = pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own


def common(*contents):
    """What all have in common, to be compared."""
    names = set.intersection(*map(set, contents))
    return [{name: each[name] for name in sorted(names)} for each in contents]


@pytest.mark.parametrize(
    ("way", "dim"), [*((way, None) for way in FORMS), (FORMS[0], 40), (FORMS[3], 40)]
)
def test_tables_made_in_another_order_are_loaded_by_their_names(way, dim, tmp_path):
    saved = features(["users", "items"], dim)
    path = save(saved, tmp_path, way)
    model = load(features(["items", "users"], dim), path)
    assert content(model) == content(saved)
    assert content(trained(load(features(["users", "items"], dim), path))) == content(
        trained(saved)
    )


@pytest.mark.parametrize(
    ("way", "others"),
    [
        (FORMS[0], ["items", "others"]),
        (FORMS[0], ["items"]),
        (FORMS[3], ["items", "others"]),
    ],
)
def test_tables_that_would_change_places_are_refused_and_nothing_changes(way, others, tmp_path):
    path = save(features(["users", "items"]), tmp_path, way)
    model = features(others)
    before = content(model)
    words = r"table '\w+/embeddings' of '.*saved.*' for '\w+/embeddings' of"
    with pytest.raises(ValueError, match=f"layers have the saved order .* Received: {words}"):
        load(model, path)
    assert content(model) == before


@pytest.mark.parametrize("way", [FORMS[0], FORMS[3]])
@pytest.mark.parametrize(
    ("names", "others"),
    [
        (["embedding", "embedding_1"], ["embedding_1", "embedding_2"]),
        (["embedding_1", "embedding"], ["embedding", "embedding_1"]),
        (["embedding", "embedding_1"], ["users", "embedding"]),
        (["embedding_2", "items"], ["users", "embedding_2"]),
        (["users", "items"], ["a", "b"]),
    ],
)
def test_layers_may_have_other_names(way, names, others, tmp_path):
    saved = features(names)
    path = save(saved, tmp_path, way)
    model, words = features(others), r"Received: tables \['users', 'items'\] of .* for \['a', 'b'\]"
    is_told = "a" in others
    with pytest.warns(match=words) if is_told else contextlib.nullcontext():
        load(model, path)
    assert [content(model)[name] for name in others] == [content(saved)[name] for name in names]


@pytest.mark.parametrize("way", FORMS[:1] + FORMS[3:])
@pytest.mark.parametrize("by_attribute", [False, True])
def test_tables_in_other_layers_and_attributes_keep_their_names(way, by_attribute, tmp_path):
    saved = towers(["query", "item"], by_attribute)
    path = save(saved, tmp_path, way)
    model = load(towers(["item", "query"], by_attribute), path)
    for name in ("query", "item"):
        np.testing.assert_array_equal(layer_rows(model, name), layer_rows(saved, name))


def test_tables_that_no_one_has_named_go_by_their_layers(tmp_path):
    def model_of(*names):
        ids = keras.Input((2, 1), dtype="int64")
        rows = [All2AllDenseEmbedding(60, 4, 2, 1, name=name)(ids) for name in names]
        outputs = keras.layers.Add()([keras.layers.Flatten()(each) for each in (rows * 2)[:2]])
        model = keras.Model(ids, outputs)
        model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
        model.train_on_batch(FEW_IDS[..., np.newaxis], np.arange(256).reshape(32, 8))
        return model

    path = save(saved := model_of("a", "b"), tmp_path, "weights.h5")
    model = load(model_of("b", "a"), path)
    for name in "ab":
        rows = [each.get_layer(name).find(np.arange(30)).rows for each in (model, saved)]
        np.testing.assert_array_equal(*rows)
    save(model_of("a"), tmp_path, "weights.h5")
    with pytest.warns(UserWarning, match="(?s)b/embeddings: not in the file.*Unused.*a/embeddings"):
        load(model_of("b"), path, skip_mismatch=True)
    save(model_of("a", "c"), tmp_path, "weights.h5")
    with pytest.raises(
        ValueError, match=r"Name the layer 'c'.*'c/embeddings' of .* 'b/embeddings'"
    ):
        load(model_of("a", "b"), path)


def test_layers_of_one_name_are_reported_each(tmp_path):
    path = save(towers(["t", "t"], by_attribute=True), tmp_path, "checkpoint")
    model = towers(["t", "t"], by_attribute=True, width=5)
    with pytest.warns(UserWarning, match="A total of 4 objects"):
        report = load_checkpoint(model, path, skip_mismatch=True, verbose=False).report
    assert list(report.skipped) == ["a", "t", "layers/embedding_1", "optimizer"]
    assert report.loaded == ("b",)


def test_dense_layers_of_one_shape_keep_their_names(tmp_path):
    saved = towers(["query", "item"])
    path = save(saved, tmp_path, FORMS[0])
    model = load(towers(["query", "item"], dense=("b", "a")), path)
    for mine, theirs in zip(model.dense, reversed(saved.dense), strict=True):
        np.testing.assert_array_equal(mine.kernel, theirs.kernel)


@pytest.mark.parametrize("way", FORMS)
def test_a_feature_more_and_one_less(way, tmp_path):
    saved = features(["users", "old", "items"])
    path = save(saved, tmp_path, way)
    model = features(["items", "city", "users"])
    before = content(model)
    with pytest.warns(UserWarning, match="(?s)1 objects.*city: not in the file.*Unused.*  old$"):
        load(model, path, skip_mismatch=True)
    mine, theirs = common(content(model), content(saved))
    assert mine == theirs
    assert content(model)["city"] == before["city"]
    assert {"users", "items", "adagrad/deep_kernel_accumulator", "adagrad/iteration"} < set(mine)


@pytest.mark.parametrize("way", [FORMS[0], FORMS[3]])
def test_an_error_names_what_differs(way, tmp_path):
    path = save(features(["old", "users"]), tmp_path, way)
    for changed, words in (
        ({"names": ["old", "users", "city"]}, "city"),
        ({"names": ["users"]}, "old"),
        ({"deep_units": 5}, r"deep: variable 0 is of shape \(4, 5\), and in the file of"),
        ({"layer": GroupEmbedding}, "all/users: 'users' in the file"),
    ):
        model = features(**{"names": ["old", "users"], **changed})
        before = content(model)
        with pytest.raises(ValueError, match=f"(?s)`skip_mismatch=True`.*{words}"):
            load(model, path)
        assert content(model) == before


@pytest.mark.parametrize(
    ("way", "dim", "before", "after"),
    [
        ("weights.h5", None, GroupEmbedding, None),
        ("keras", 40, None, DistributedEmbedding),
        ("weights.json", None, DistributedEmbedding, GroupEmbedding),
        ("checkpoint", None, None, GroupEmbedding),
        ("checkpoint", 40, GroupEmbedding, None),
    ],
)
def test_tables_move_into_another_layer_with_their_slots(way, dim, before, after, tmp_path):
    saved = features(["users", "items"], dim, layer=before)
    path = save(saved, tmp_path, way)
    model = load(features(["items", "users"], dim, layer=after), path, skip_mismatch=True)
    assert content(model) == content(saved)


def test_a_layer_without_a_counterpart_or_of_another_width_starts_afresh(tmp_path):
    saved = features(["users"], deep_units=3)
    path = save(saved, tmp_path, "checkpoint")
    model = features(["users"], deep_units=5)
    before = content(model)
    with pytest.warns(UserWarning, match="3 objects could not be loaded"):
        report = load_checkpoint(model, path, skip_mismatch=True, verbose=False).report
    assert report.loaded == ("users",)
    assert (
        report.skipped["deep"] == "variable 0 is of shape (4, 5), and in the file of shape (4, 3)"
    )
    assert "starts afresh with deep_kernel_accumulator" in report.skipped["optimizer"]
    assert not report.unused
    after = content(model)
    assert after["users"] == content(saved)["users"]
    for name in ("deep/kernel", "deep/bias", "adagrad/deep_bias_accumulator"):
        assert after[name] == before[name]


@pytest.mark.parametrize("way", [FORMS[0], FORMS[3]])
def test_layers_without_names_go_by_their_order_if_there_are_as_many(way, tmp_path):
    path = save(saved := features(["users"], deep=None), tmp_path, way)
    with pytest.warns(UserWarning, match="city"):
        model = load(features(["users", "city"], deep=None), path, skip_mismatch=True)
    hidden = [next(x for x in m.layers if x.name.startswith("dense")) for m in (model, saved)]
    np.testing.assert_array_equal(hidden[0].kernel, hidden[1].kernel)
    slots = [m.optimizer._accumulators[0].numpy() for m in (model, saved)]
    np.testing.assert_array_equal(*slots)

    ids = keras.Input((2,), dtype="int64")
    rows = keras.layers.Dense(4)(Embedding(None, 4, "sum", name="users")(ids))
    more = keras.Model(ids, keras.layers.Dense(1, name="out")(keras.layers.Dense(3)(rows)))
    compile_eagerly(more)
    before = [each.get_weights() for each in more.layers[2:4]]
    with pytest.warns(
        UserWarning, match="its name is automatic, and 1 such layers are in the file"
    ):
        load(more, path, skip_mismatch=True)
    for layer, weights in zip(more.layers[2:4], before, strict=True):
        np.testing.assert_array_equal(layer.get_weights()[0], weights[0])
    np.testing.assert_array_equal(more.get_layer("out").kernel, saved.get_layer("out").kernel)


def several_optimizers():
    adagrad, adam = keras_sparse.optimizers.Adagrad(0.1), keras_sparse.optimizers.Adam(0.02)
    return keras_sparse.optimizers.MultiOptimizer({"embeddings": adagrad, "others": adam})


@pytest.mark.parametrize(
    "make",
    [
        several_optimizers,
        lambda: keras_sparse.distribute.DistributedOptimizer(several_optimizers()),
        lambda: keras.optimizers.LossScaleOptimizer(keras_sparse.optimizers.Nadam(0.1)),
        lambda: keras_sparse.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 9)),
    ],
)
def test_all_optimizers_take_over_their_variables_by_names(make, tmp_path):
    path = save(saved := features(["users", "old"], optimizer=make()), tmp_path, "checkpoint")
    model = features(["city", "users"], optimizer=make())
    with pytest.warns(UserWarning, match="city"):
        load(trained(model), path, skip_mismatch=True)
    mine, theirs = common(content(model), content(saved))
    assert mine == theirs
    assert len([name for name in mine if "/deep_" in name]) == 4


@pytest.mark.filterwarnings("ignore:A total of 1 objects")
def test_one_table_may_have_another_optimizer(tmp_path):
    path = save(saved := features(["users", "items"]), tmp_path, "checkpoint")
    optimizers = keras_sparse.optimizers
    chosen = {"users": optimizers.Adam(), "others": optimizers.Adagrad()}
    chosen["embeddings"] = optimizers.Adagrad()
    model = features(["users", "items"], optimizer=optimizers.MultiOptimizer(chosen))
    with pytest.warns(UserWarning, match="slots saved with 'users/embeddings' are those of rule"):
        load(model, path, skip_mismatch=True)
    users, items = (model.get_layer(name).find(FEW_IDS[0]) for name in ("users", "items"))
    saved_users, saved_items = (saved.get_layer(n).find(FEW_IDS[0]) for n in ("users", "items"))
    np.testing.assert_array_equal(users.rows, saved_users.rows)
    assert not np.any(users.slots["velocity"])
    np.testing.assert_array_equal(items.slots["accumulator"], saved_items.slots["accumulator"])
    mine, theirs = common(content(model), content(saved))
    assert mine["adagrad/out_kernel_accumulator"] == theirs["adagrad/out_kernel_accumulator"]


def test_skip_mismatch_is_a_boolean(tmp_path):
    with pytest.raises(TypeError, match="`skip_mismatch` must be True or False"):
        load_checkpoint(features(["users"]), tmp_path, skip_mismatch="all")


@pytest.mark.filterwarnings("ignore:The slots saved with")
def test_another_optimizer_goes_on_counting_steps(tmp_path):
    path = save(saved := features(["users"]), tmp_path, "checkpoint")
    model = features(["users"], optimizer="SGD")
    model.optimizer.learning_rate = 0.5
    with pytest.warns(UserWarning, match="optimizer: starts afresh with learning_rate"):
        load(model, path, skip_mismatch=True)
    assert model.optimizer.iterations == saved.optimizer.iterations == 1
    assert model.optimizer.learning_rate == 0.5
    np.testing.assert_array_equal(
        model.get_layer("users").find(FEW_IDS[0]).rows,
        saved.get_layer("users").find(FEW_IDS[0]).rows,
    )


def test_a_table_of_another_width_is_skipped_and_one_with_more_ids_grows(tmp_path):
    path = save(saved := features(["users"], dim=40), tmp_path, "weights.h5")
    with pytest.warns(UserWarning, match="users: saved input_dim=40, output_dim=4 for 'users"):
        load(features(["users"], dim=40, width=5), path, skip_mismatch=True)
    model = load(features(["users"], dim=50), path, skip_mismatch=True, grow=True)
    rows = [m.get_layer("users").find(np.arange(40)).rows for m in (model, saved)]
    np.testing.assert_array_equal(*rows)


def test_what_was_loaded_in_part_is_saved_as_any_model(tmp_path):
    path = save(features(["users", "items"]), tmp_path, "checkpoint")
    with pytest.warns(UserWarning, match="city"):
        model = load(features(["users", "city"]), path, skip_mismatch=True)
    save_checkpoint(model, tmp_path / "whole", verbose=False)
    expected = content(model)
    assert content(load(features(["users", "city"]), tmp_path / "whole")) == expected
    trained(model)
    delta = save_delta(model, tmp_path / "delta", verbose=False)
    assert content(load(features(["city", "users"]), delta)) == content(model) != expected


def test_a_file_of_an_earlier_version_has_no_names_of_slots(tmp_path):
    path = save(saved := features(["users", "items"]), tmp_path, "weights.h5")
    with h5py.File(path, "r+") as file:
        for dataset in file["optimizer/vars"].values():
            del dataset.attrs["name"]
    assert content(load(features(["items", "users"]), path)) == content(saved)
    with pytest.warns(UserWarning, match="starts afresh with deep_kernel_accumulator"):
        model = load(features(["users"], deep_units=5), path, skip_mismatch=True)
    assert model.optimizer.iterations == 1
    with h5py.File(path, "r+") as file:
        names = []
        file.visit(lambda name: names.append(name) if name.endswith("vars") else None)
        for name in names:
            del file[name].attrs["name"]
    assert content(load(features(["users", "items"]), path)) == content(saved)
