import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_sparse import native
from keras_sparse.ops.embedding_lookup import embedding_lookup
from keras_sparse.ops.embedding_lookup import ids_tensor
from keras_sparse.utils import checks

_SAMPLERS = {
    "log_uniform": tf.random.log_uniform_candidate_sampler,
    "uniform": tf.random.uniform_candidate_sampler,
}


# AutoGraph would rewrite this function for every trace, and finds nothing in it to convert.
@tf.autograph.experimental.do_not_convert
def sampled_softmax_loss(
    weights,
    biases,
    labels,
    inputs,
    num_sampled,
    num_classes=None,
    num_true=1,
    sampled_values=None,
    remove_accidental_hits=True,
    seed=None,
    sampler="log_uniform",
):
    """Computes a sampled softmax loss whose class weights are the rows of a table.

    A step reads and trains only the rows of its labels and of `num_sampled` drawn classes, also in
    a table of a million classes. The loss is that of `tf.nn.sampled_softmax_loss` and is meant for
    training. To evaluate, compute the softmax over all classes, or rank by the dot product of
    inputs and rows. Differentiable in the tables and in the inputs.

    Ranks that share a sharded table pass its layer and compute the loss together. Each rank draws
    negatives for its own samples. With one `seed` per call site, or the same `sampled_values`, all
    ranks train the negatives of one process.

    Args:
        weights: `EmbeddingVariable` with a row for each class: static, or dynamic with the classes
            as keys. Or a built `Embedding`, `DistributedEmbedding` or `GroupEmbedding`; for a layer
            with several tables, `(layer, name of the table)`. Admission filters count a class once
            per step, even with `count="occurrences"`.
        biases: A table or layer as for `weights`, with one column; or a float32 tensor or variable
            of shape `(num_classes,)`; or `None` for no biases.
        labels: Integer tensor of shape `(batch_size, num_true)`: the classes of each sample, in
            `[0, num_classes)`.
        inputs: Float tensor of shape `(batch_size, output_dim)`.
        num_sampled: Integer. Number of distinct classes to draw for the batch: at most
            `num_classes`, unless `sampled_values` are given.
        num_classes: Integer. Number of classes. Defaults to `None`: the rows of a static table.
        num_true: Integer. Number of classes per sample. Defaults to 1.
        sampled_values: `(sampled_candidates, true_expected_count, sampled_expected_count)`, as the
            candidate samplers of `tf.random` return them. Defaults to `None`: drawn by `sampler`.
        remove_accidental_hits: Boolean. Whether to ignore drawn classes for samples that have them
            as labels. Defaults to `True`.
        seed: Integer. Seed of the sampler. Defaults to `None`: TensorFlow's seed.
        sampler: `"log_uniform"` or `"uniform"`. `"log_uniform"` draws low numbers more often: use
            it if classes are sorted by descending frequency. Defaults to `"log_uniform"`.

    Returns:
        float32 tensor of shape `(batch_size,)`: the loss of each sample.

    Raises:
        TypeError: `weights` is neither table nor layer, or `labels` are not integers.
        ValueError: `num_classes` is missing for a dynamic table or exceeds the rows of a static
            one, `labels` have another shape, or another argument is out of its range.
        tf.errors.InvalidArgumentError: A label is not in `[0, num_classes)`, or labels of unknown
            shape have another shape in a step.

    Example:
    >>> items = keras_sparse.EmbeddingVariable(1000, 8)
    >>> sampled_softmax_loss(items, None, [[3], [7]], tf.ones((2, 8)), num_sampled=20).shape
    TensorShape([2])
    """
    classes_table = _Table.of(weights, "weights")
    num_classes = _check_num_classes(num_classes, classes_table)
    num_sampled = checks.positive(num_sampled, "num_sampled")
    num_true = checks.positive(num_true, "num_true")
    checks.one_of(sampler, tuple(_SAMPLERS), "sampler")
    if sampled_values is None and num_sampled > num_classes:
        raise ValueError(
            "`num_sampled` must be at most `num_classes`, because each class is drawn once. "
            f"Draw fewer classes. Received: num_sampled={num_sampled}, num_classes={num_classes}"
        )
    labels = _check_labels(labels, num_classes, num_true)
    if sampled_values is None:
        sampled_values = _SAMPLERS[sampler](
            labels, num_true, num_sampled, unique=True, range_max=num_classes, seed=seed
        )
    sampled, *counts = sampled_values
    num_labels = tf.size(labels)
    # The classes of the step by numbers of its own: equal ones stay equal, and their rows are few.
    classes, numbers = tf.unique(
        tf.concat([tf.reshape(labels, (-1,)), tf.stop_gradient(tf.cast(sampled, tf.int64))], 0),
        out_idx=tf.int64,
    )
    return tf.nn.sampled_softmax_loss(
        weights=classes_table.lookup(classes),
        biases=_biases_of(biases, classes),
        labels=tf.reshape(numbers[:num_labels], tf.shape(labels)),
        inputs=tf.cast(inputs, tf.float32),
        num_sampled=num_sampled,
        num_classes=num_classes,
        num_true=num_true,
        sampled_values=(numbers[num_labels:], *counts),
        remove_accidental_hits=remove_accidental_hits,
    )


def _check_labels(labels, num_classes, num_true):
    labels = ids_tensor(labels, "labels")
    rule = f"`labels` must be of shape (batch_size, num_true), num_true={num_true}"
    if isinstance(labels, tf.RaggedTensor):
        raise ValueError(f"{rule}. Received: a RaggedTensor of shape {labels.shape}")
    if not labels.shape.is_compatible_with((None, num_true)):
        remedy = "Add an axis, `labels[:, None]`, or give" if labels.shape.rank == 1 else "Give"
        raise ValueError(
            f"{rule}. {remedy} `num_true` classes for each sample. Received: labels of shape "
            f"{labels.shape}"
        )
    labels = tf.cast(labels, tf.int64)
    if not labels.shape[1:].is_fully_defined():  # not before the step
        width = tf.reduce_prod(tf.shape(labels)[1:])
        fits = tf.equal(tf.rank(labels), 2) & tf.equal(width, num_true)
        shape_check = tf.debugging.Assert(fits, [f"{rule}. Received: shape", tf.shape(labels)])
        with tf.control_dependencies([shape_check]):
            labels = tf.reshape(labels, (-1, num_true))
    are_classes = tf.reduce_all((labels >= 0) & (labels < num_classes))
    message = f"`labels` must be in [0, {num_classes}). Received:"
    with tf.control_dependencies([tf.debugging.Assert(are_classes, [message, labels])]):
        return tf.identity(labels)


class _Table(NamedTuple):
    """The lookup and the shape of a table."""

    lookup: Callable
    input_dim: int | None
    output_dim: int
    name: str

    @classmethod
    def of(cls, table, argument):
        """Returns the lookup of an `EmbeddingVariable`, a layer, or `(layer, table name)`."""
        layer, name = table if isinstance(table, tuple) and len(table) == 2 else (table, None)
        if hasattr(layer, "lookup_rows"):
            lookup = functools.partial(layer.lookup_rows, table=name)
            input_dim, output_dim = layer.table_shape(name)
            return cls(lookup, input_dim, output_dim, f"layer '{layer.name}'")
        native.check_table(table, argument)
        lookup = functools.partial(embedding_lookup, table)
        return cls(lookup, table.input_dim, table.output_dim, f"variable '{table.path}'")


def _check_num_classes(num_classes, table):
    if num_classes is None and table.input_dim is None:
        raise ValueError(
            "`num_classes` must be given for a dynamic table, whose number of rows is not "
            f"fixed. Received: num_classes=None for {table.name}"
        )
    num_classes = table.input_dim if num_classes is None else num_classes
    checks.positive(num_classes, "num_classes")
    if table.input_dim is not None and num_classes > table.input_dim:
        raise ValueError(
            "`num_classes` must be at most the rows of `weights`. Received: "
            f"num_classes={num_classes} for {table.input_dim} rows of {table.name}"
        )
    return num_classes


def _biases_of(biases, classes):
    if biases is None:
        return tf.zeros(tf.shape(classes))
    is_layer = isinstance(biases, tuple) or hasattr(biases, "lookup_rows")
    if not is_layer and not hasattr(biases, "native"):
        return tf.gather(biases, classes)
    table = _Table.of(biases, "biases")
    if table.output_dim != 1:
        raise ValueError(
            f"`biases` must have one column. Received: a table of {table.output_dim} columns, "
            f"{table.name}"
        )
    return tf.squeeze(table.lookup(classes), axis=1)
