"""What we rely on of Keras' insides, by whose names a later Keras would pass us by in silence."""

import keras
import numpy as np
import tensorflow as tf

from keras_sparse.callbacks.data_position import DataPosition
from keras_sparse.inputs import symbolic_inputs
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer


def test_keras_calls_layers_for_shapes_in_a_graph_of_the_name_that_we_know():
    names = []

    class Looking(keras.layers.Layer):
        def call(self, inputs):
            names.append(tf.compat.v1.get_default_graph().name)
            return inputs

    Looking()(keras.Input((2,)))
    assert [name.startswith(symbolic_inputs._GRAPH) for name in names] == [True]


def test_keras_asks_an_optimizer_for_its_average_by_the_name_of_our_hook():
    asked = []

    def ask(self, grads_and_vars):
        asked.append(grads_and_vars)
        return keras.optimizers.SGD._all_reduce_sum_gradients(self, grads_and_vars)

    hook = SparseOptimizer._all_reduce_sum_gradients.__name__
    optimizer = type("Asking", (keras.optimizers.SGD,), {hook: ask})(0.5)
    variable = keras.Variable([1.0])
    optimizer.apply([tf.constant([2.0])], [variable])
    assert len(asked) == 1
    np.testing.assert_array_equal(variable, [0.0])


def test_a_sequential_model_gives_its_guess_up_at_our_error():
    class Refusing(keras.layers.Layer):
        def call(self, inputs):
            if inputs.dtype.is_floating:
                raise symbolic_inputs.FloatIdsError("floats")
            return inputs + 1

    model = keras.Sequential([Refusing()])
    np.testing.assert_array_equal(model(np.array([[2**62]])), [[2**62 + 1]])


def test_fit_has_an_iterator_over_epochs_of_the_names_that_we_know():
    class Looking(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.position = DataPosition(self.model)
            assert self.position.is_known, "`fit` has no local variable `epoch_iterator`"
            # What is put in the place of a name that Keras no longer calls would go unnoticed.
            names = {"steps_per_epoch", "_num_batches", "_steps_seen", "_current_iterator"}
            assert names <= vars(self.position._epochs).keys()
            self.position.go_to(1, 1, True, verbose=False)

        def on_train_batch_begin(self, batch, logs=None):
            assert batch > 0, "epochs do not begin with `_enumerate_iterator`"

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    options = {"batch_size": 1, "verbose": 0, "callbacks": [looking := Looking()]}
    model.fit(np.ones((2, 1)), np.ones((2, 1)), **options)
    assert looking.position.now(is_epoch_over=False) == 0
    assert int(model.optimizer.iterations) == 1
