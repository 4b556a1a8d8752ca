import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import movielens_data
import movielens_model


@pytest.fixture
def ratings(tiny_files):
    return movielens_data.parse(*tiny_files)


def test_dot_interaction_multiplies_each_pair_once():
    layer = movielens_model.DotInteraction()
    features = np.array([[[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]]], np.float32)
    np.testing.assert_array_equal(layer(features), [[2, 4, 2 * 4 + 3 * 5]])
    assert layer.compute_output_shape((None, 9, 16)) == (None, 36)


def test_batches_hold_the_ratings_at_the_positions(ratings):
    (first, labels), (second, _) = movielens_model.make_batches(ratings, [3, 0, 2], 2)
    np.testing.assert_array_equal(first["user"], ratings.columns["user"][[3, 0]])
    np.testing.assert_array_equal(second["item"], ratings.columns["item"][[2]])
    np.testing.assert_array_equal(labels, [0, 1])
    genres = tf.gather(tf.constant(ratings.vocabularies["genres"]), first["genres"])
    assert genres.to_list() == [[b"Horror", b"Drama"], [b"Drama"]]


def test_shuffled_batches_differ_from_epoch_to_epoch(ratings):
    batches = movielens_model.make_batches(ratings, np.arange(4).repeat(50), 200, shuffle=True)
    (first, _), (second, _) = next(iter(batches)), next(iter(batches))
    assert (first["user"].numpy() != second["user"].numpy()).any()
    np.testing.assert_array_equal(np.sort(first["user"]), np.sort(second["user"]))


def test_all_tables_of_the_model_are_ours_and_keys_have_dynamic_ones(ratings):
    model = movielens_model.make_model(ratings.vocabularies)
    tables = dict(
        zip(movielens_model.table_stats(model), model.get_layer("tables").tables, strict=True)
    )
    assert len(tables) == 8
    assert {name for name, table in tables.items() if table.is_dynamic} == {"user", "item", "zip"}
    assert not any(isinstance(layer, keras.layers.Embedding) for layer in model.layers)


def test_training_makes_a_row_for_each_key_it_saw_and_evaluation_none(ratings):
    model = movielens_model.make_model(ratings.vocabularies)
    model.compile(keras_sparse.optimizers.LazyAdam(0.01), loss="binary_crossentropy")
    model.fit(movielens_model.make_batches(ratings, [0, 1, 2], 2), shuffle=False, verbose=0)
    model.evaluate(movielens_model.make_batches(ratings, [3], 2), verbose=0)
    rows = {name: stats["rows"] for name, stats in movielens_model.table_stats(model).items()}
    keys = {"user": 2, "item": 3, "zip": 2}
    ids = {"gender": 2, "age": 3, "occupation": 3, "year": 2, "genres": 7}
    assert rows == keys | ids


def test_a_film_without_genres_gets_a_prediction(ratings):
    model = movielens_model.make_model(ratings.vocabularies)
    (features, _), *_ = movielens_model.make_batches(ratings, [0, 1], 2)
    features["genres"] = tf.ragged.constant([[], [0]], dtype=tf.int32)
    assert np.isfinite(model(features)).all()
