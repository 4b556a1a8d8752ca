"""A table with a name does not get the rows of a table of another name."""

import keras
import numpy as np
import pytest

import checks
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
from keras_sparse.callbacks import Checkpoint
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding

pytestmark = pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own
RENAMED = ["users", "films"], ["users", "items"]


@pytest.mark.parametrize(
    ("way", "layer", "dim"),
    [
        *((way, None, None) for way in FORMS),
        ("weights.h5", GroupEmbedding, None),
        ("checkpoint", GroupEmbedding, 40),
        ("keras", DistributedEmbedding, 40),
        ("checkpoint", DistributedEmbedding, None),
    ],
)
def test_a_table_of_another_name_does_not_get_the_rows(way, layer, dim, tmp_path):
    path = save(features(RENAMED[0], dim, layer=layer), tmp_path, way)
    model = features(RENAMED[1], dim, layer=layer)
    assert_films_are_no_items(model, path, content)
    with pytest.warns(UserWarning, match="(?s)items: not in the file.*Unused.*films"):
        load(model, path, skip_mismatch=True)


def assert_films_are_no_items(model, path, content):
    before = content(model)
    words = "must be loaded by its name.*Name the layer 'films'.* Received: table '.*films.*' of"
    for load_it in (load, lambda model, path: keras_sparse.saving.load_weights(model, path)):
        if load_it is load or not path.is_dir():
            with pytest.raises(ValueError, match=f"{words} '.*saved.*' for '.*items.*' of model"):
                load_it(model, path)
    assert content(model) == before


@pytest.mark.parametrize("way", [FORMS[0], FORMS[3]])
@pytest.mark.parametrize(
    "options", [{}, {"table": None}, {"by_attribute": True}], ids=["named", "unnamed", "attribute"]
)
def test_a_table_in_another_layer_or_attribute_does_not_get_the_rows(way, options, tmp_path):
    path = save(towers(RENAMED[0], **options), tmp_path, way)
    model = towers(RENAMED[1], **options)

    def rows(model):
        return [layer_rows(model, name).tolist() for name in RENAMED[1]]

    assert_films_are_no_items(model, path, rows)
    before = rows(model)
    with pytest.warns(UserWarning, match=r"(?s)items(/\w+)?: (not in|'films' has .* in) the file"):
        load(model, path, skip_mismatch=True)
    assert rows(model)[0] != before[0]
    assert rows(model)[1] == before[1]


def test_the_group_of_tables_that_no_one_has_named_may_have_another_name(tmp_path):
    def model_of(name):
        ids = keras.Input((2,), dtype="int64")
        rows = [Embedding(None, 4, "sum", name="users")(ids)]
        rows += GroupEmbedding([Embedding(None, 4, "sum")], name=name)([ids])
        model = keras.Model(ids, keras.layers.Add()(rows))
        compile_eagerly(model)
        model.train_on_batch(FEW_IDS, np.ones((32, 4)))
        return model

    saved, model = model_of("films"), model_of("items")
    load(model, save(saved, tmp_path, "checkpoint"))
    tables = [
        [checks.table_content(t) for t in each.trainable_variables] for each in (saved, model)
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("way", [FORMS[0], FORMS[3]])
def test_tables_of_one_name_in_two_groups_are_told_apart_by_their_groups(way, tmp_path):
    def model_of(*names):
        ids = keras.Input((2,), dtype="int64")
        rows = []
        for group in ("clicks", "likes"):
            tables = [Embedding(None, 4, "sum", name=name) for name in names]
            rows += GroupEmbedding(tables, name=group)([ids, ids])
        model = keras.Model(ids, keras.layers.Add()(rows))
        compile_eagerly(model)
        model.train_on_batch(FEW_IDS, np.ones((32, 4)))
        return model

    path = save(model_of("users", "films"), tmp_path, way)
    with pytest.raises(ValueError, match=r"Name the layer 'films'.*'clicks/films'.*'clicks/items'"):
        load(model_of("users", "items"), path)
    load(model_of("users", "films"), path)


def test_a_training_does_not_begin_from_other_tables(tmp_path):
    path = save(features(RENAMED[0]), tmp_path, "checkpoint")
    model = features(RENAMED[1])
    before = content(model)
    callback = Checkpoint(tmp_path / "run", begin_from=path, verbose=False)
    with pytest.raises(ValueError, match="Name the layer 'films'"):
        model.fit([FEW_IDS, FEW_IDS], np.ones((32, 1)), verbose=0, callbacks=[callback])
    assert content(model) == before
