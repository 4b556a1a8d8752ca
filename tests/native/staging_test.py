"""The stage's ops by themselves, as code of one's own calls them."""

import numpy as np
import tensorflow as tf

from keras_sparse import EmbeddingVariable
from keras_sparse import native
from stages import Stage


def test_a_lookup_takes_what_was_staged_by_hand():
    variable = EmbeddingVariable(10, 2, initializer="ones")

    def look_up(ids):
        return native.lookup([variable], [tf.constant(ids, "int64")])[0]

    stage = native.create_lookup_stage(num_threads=2, capacity=3, on_gpu=variable.is_on_gpu)
    np.testing.assert_array_equal(native.lookup_stage_state(stage), [2, 3, 0])
    for number, ids in enumerate(([1, 2], [3, 4, 5])):
        with native.collect_lookups() as lookups:
            np.testing.assert_array_equal(look_up(ids), np.zeros((len(ids), 2)))
        native.stage_lookups(stage, number, lookups, reads_rows=True)
    Stage(stage).wait(2)
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 0, 0, 0]

    np.testing.assert_array_equal(look_up([1, 2]), np.ones((2, 2)))
    np.testing.assert_array_equal(native.lookup_stage_state(stage), [2, 3, 1])
    np.testing.assert_array_equal(look_up([6]), np.ones((1, 2)))
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 1, 1, 0]
    del stage  # it ends with what holds it, and the lookup that is left is no step's
    assert list(native.staging_stats([variable]).numpy()[0, :4]) == [2, 1, 1, 1]
