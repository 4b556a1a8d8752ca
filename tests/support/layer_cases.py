"""Each layer with tables or a vocabulary, and models of any form that use it on ids `(n, 3)`."""

import keras
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup


@keras.saving.register_keras_serializable("layer_cases")
class OwnLookup(keras.layers.Layer):
    """A user's own layer around a table."""

    def build(self, input_shape):
        self.table = keras_sparse.EmbeddingVariable(None, 2)

    def call(self, ids):
        return keras_sparse.ops.embedding_lookup(self.table, ids)

    def save_own_variables(self, store):
        if self.built:
            keras_sparse.saving.save_table(self.table, store)

    def load_own_variables(self, store):
        if self.built:
            keras_sparse.saving.load_table(self.table, store)


def _both(dim):
    return [Embedding(dim, 2, "sum"), Embedding(dim, 3, "mean")]


def _slots(ids):
    return ids[:, :, None]


def _named(ids):
    return {"a": ids, "b": ids}


# By a name: makes the layer, gives its inputs for ids, makes one tensor of its outputs.
LAYERS = {
    "dynamic": (lambda: Embedding(None, 2, "sum"), lambda ids: ids, tf.identity),
    "static": (lambda: Embedding(60, 2, "sum"), lambda ids: ids, tf.identity),
    "distributed_dynamic": (
        lambda: DistributedEmbedding(_both(None)),
        lambda ids: [ids, ids],
        lambda rows: tf.concat(rows, 1),
    ),
    "distributed_static": (
        lambda: DistributedEmbedding(_both(60)),
        lambda ids: [ids, ids],
        lambda rows: tf.concat(rows, 1),
    ),
    "group_dynamic": (
        lambda: GroupEmbedding(dict(zip("ab", _both(None), strict=True))),
        _named,
        lambda rows: tf.concat([rows["a"], rows["b"]], 1),
    ),
    "group_static": (
        lambda: GroupEmbedding(dict(zip("ab", _both(60), strict=True))),
        _named,
        lambda rows: tf.concat([rows["a"], rows["b"]], 1),
    ),
    "one_in_distributed": (
        lambda: DistributedEmbedding(Embedding(None, 2, "sum")),
        lambda ids: ids,
        tf.identity,
    ),
    "all2all_dense": (
        lambda: All2AllDenseEmbedding(90, 2, 3, 1),
        _slots,
        lambda rows: tf.reduce_sum(rows, (1, 2)),
    ),
    "all2all_dense_without_hashtable": (
        lambda: All2AllDenseEmbedding(60, 2, 3, 1, use_hashtable=False),
        _slots,
        lambda rows: tf.reduce_sum(rows, (1, 2)),
    ),
    "all2all_sparse": (
        lambda: All2AllSparseEmbedding("mean", 90, 2, 3),
        _slots,
        lambda rows: tf.reduce_sum(rows, 1),
    ),
    "own_lookup": (OwnLookup, lambda ids: ids, lambda rows: tf.reduce_sum(rows, 1)),
    "integer_lookup": (
        lambda: IntegerLookup(60),
        lambda ids: ids,
        lambda tokens: tf.cast(tokens, "float32"),
    ),
}

STATIC = ("static", "distributed_static", "group_static", "all2all_dense_without_hashtable")


@keras.saving.register_keras_serializable("layer_cases")
class Use(keras.layers.Layer):
    """What is done before a layer, or after it, as a layer."""

    def __init__(self, case, step, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.case = case
        self.step = step

    def call(self, inputs):
        return LAYERS[self.case][self.step](inputs)

    def get_config(self):
        return {**super().get_config(), "case": self.case, "step": self.step}


def functional(case):
    make, _, _ = LAYERS[case]
    ids = keras.Input((3,), dtype="int64")
    rows = Use(case, 2)(make()(LAYERS[case][1](ids)))
    return keras.Model(ids, keras.layers.Dense(1)(rows))


def sequential(case):
    """Without an `Input`, of which Keras guesses the dtype."""
    return keras.Sequential([Use(case, 1), LAYERS[case][0](), Use(case, 2), keras.layers.Dense(1)])


@keras.saving.register_keras_serializable("layer_cases")
class Subclassed(keras.Model):
    def __init__(self, case, **kwargs):
        super().__init__(**kwargs)
        self.case = case
        make, self.before, self.after = LAYERS[case]
        self.rows = make()
        self.out = keras.layers.Dense(1)

    def call(self, ids):
        return self.out(self.after(self.rows(self.before(ids))))

    def get_config(self):
        return {**super().get_config(), "case": self.case}


FORMS = {"functional": functional, "sequential": sequential, "subclassed": Subclassed}


def made(form, case, ids):
    """A built model of a form, compiled, its optimizer built."""
    model = FORMS[form](case)
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse")
    model(ids)
    model.optimizer.build(model.trainable_variables)
    return model


def train(model, ids):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ids, training=True))
    variables = model.trainable_variables
    model.optimizer.apply(tape.gradient(loss, variables), variables)


def export(model, path):
    model.export(path, verbose=False)


def save_by_tensorflow(model, path):
    tf.saved_model.save(model, str(path))


def archive(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 3), tf.int64)])
    archive.write_out(path, verbose=False)


EXPORTS = [export, save_by_tensorflow, archive]


def served(path, ids):
    """The only output of the signature that servers ask by default."""
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    (answer,) = signature(tf.constant(ids)).values()
    return answer.numpy()
