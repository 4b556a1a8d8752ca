import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.utils import checks


class WeightedShards(tf.experimental.ExtensionType):
    """The sample weights of a rank's part of a batch, multiplied by the part's share.

    TensorFlow and Keras use it as the tensor of that product, which the loss of a part needs.
    `MetricAverage` separates the factors, because reported metrics use the weights alone. A plain
    tensor could not tell them apart, since samples may have had weights before.
    """

    weights: tf.Tensor
    share: tf.Tensor  # a scalar: n * b / B of a part of b of the B samples of a batch, on n ranks

    @property
    def shape(self):
        return self.weights.shape

    @property
    def dtype(self):
        return self.weights.dtype

    def __tf_tensor__(self, dtype=None, name=None):
        product = self.weights * tf.cast(self.share, self.weights.dtype)
        return product if dtype is None else tf.cast(product, dtype, name)

    def __array__(self, dtype=None, copy=None):
        return self.__tf_tensor__(dtype).numpy()

    def __getitem__(self, key):
        return tf.convert_to_tensor(self)[key]

    def __mul__(self, other):
        return tf.convert_to_tensor(self) * other

    __rmul__ = __mul__


def shard(dataset, weigh_samples=False):
    """Takes this rank's part of every batch.

    Of a batch of `B` samples, rank `r` of `n` takes those from `r * B // n` up to
    `(r + 1) * B // n`. So all ranks make the same number of steps, and every sample is used exactly
    once for any batch size, in evaluation too. If a batch has fewer samples than there are ranks,
    some parts are empty; use `drop_remainder=True` of `batch` with layers that compute batch
    statistics, such as `BatchNormalization`. One rank takes all of each batch.

    Every rank reads all batches and must receive the same ones: shuffle with a fixed seed, such as
    that of `keras.utils.set_random_seed`. If reading takes long, let each rank read its own files
    instead, in batches of its part. Then set the number of steps, which must be the same on all
    ranks:

    ```python
    files = tf.data.Dataset.list_files(pattern, shuffle=False).shard(ksd.size(), ksd.rank())
    batches = files.interleave(tf.data.TFRecordDataset).repeat().batch(batch_size // ksd.size())
    model.fit(batches.map(parse), steps_per_epoch=num_samples // batch_size)
    ```

    With `shard`, another number of ranks resumes a training with the next batch. With own files,
    resume on the same number of ranks: each number divides the files in another way.

    Args:
        dataset: `tf.data.Dataset` of the batches that one process would train on, as `fit` takes
            it: dense, ragged and sparse tensors whose first axis is the samples.
        weigh_samples: Boolean. Whether to add a `sample_weight` of `n * b / B` to a part of `b`
            samples, or to multiply an existing one by it. The average over ranks of losses that
            Keras reduces by `"sum_over_batch_size"`, and of their gradients, then equals that of
            the whole batch even if parts differ in size. If the number of ranks divides all
            batches, the average is equal without it. Use it for training: `MetricAverage` keeps
            these weights out of the reported loss and metrics. Without that callback, as in
            `evaluate` before `average_metrics`, leave it off. Defaults to `False`.

    Returns:
        `tf.data.Dataset` with as many batches. The weights of `weigh_samples` have a type of their
        own, which TensorFlow and Keras use as a tensor.

    Raises:
        TypeError: `dataset` is not a `tf.data.Dataset`.
        ValueError: `weigh_samples=True` and elements are not `(x, y)` or `(x, y, sample_weight)`,
            or a component has no axis of samples or another number of them.

    Example:
    >>> dataset = tf.data.Dataset.range(10).batch(4)
    >>> [batch.tolist() for batch in keras_sparse.data.shard(dataset).as_numpy_iterator()]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """
    checks.boolean(weigh_samples, "weigh_samples")
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"{error_prefix()}`dataset` must be a `tf.data.Dataset` of batches. Received: "
            f"dataset of type {type(dataset).__name__}"
        )
    spec = dataset.element_spec
    if weigh_samples and not (type(spec) is tuple and len(spec) in (2, 3)):
        raise ValueError(
            f"{error_prefix()}`weigh_samples` must be used with elements (x, y) or (x, y, "
            f"sample_weight), because weights apply to a loss. Received: elements {spec}"
        )
    if size() == 1 and not weigh_samples:
        return dataset

    def part_of_batch(*components):
        # Datasets pass the components of a tuple separately.
        batch = components if type(spec) is tuple else components[0]
        num_samples = _num_samples(batch)
        begin, end = (r * num_samples // size() for r in (rank(), rank() + 1))
        part = tf.nest.map_structure(lambda each: _slice(each, begin, end), batch)
        return _weighted(part, end - begin, num_samples) if weigh_samples else part

    return dataset.map(part_of_batch, tf.data.AUTOTUNE, deterministic=True)


def _num_samples(batch):
    """Returns the number of samples: an integer if it is known, else an int64 tensor."""
    components = [each for each in tf.nest.flatten(batch) if each is not None]
    for each in components:
        if each.shape.rank == 0:
            raise ValueError(
                f"{error_prefix()}Every component of a batch must have an axis of samples. Call "
                f"`batch` on the dataset before `shard`. Received: {batch}"
            )
    static = {each.shape[0] for each in components if each.shape[0] is not None}
    if len(static) > 1:
        raise ValueError(
            f"{error_prefix()}All components of a batch must have the same number of samples. "
            f"Received: {batch}"
        )
    if static and all(each.shape[0] is not None for each in components):
        return static.pop()
    return _agreed(tf.stack([_length(each) for each in components]))


def _length(component):
    if isinstance(component, tf.RaggedTensor):
        return component.nrows(tf.int64)
    if isinstance(component, tf.SparseTensor):
        return tf.cast(component.dense_shape[0], tf.int64)
    return tf.shape(component, tf.int64)[0]


def _agreed(lengths):
    check = tf.debugging.Assert(
        tf.reduce_all(lengths == lengths[0]),
        [
            f"{error_prefix()}All components of a batch must have the same number of samples. "
            "Received, in the order of `tf.nest.flatten`:",
            lengths,
        ],
        summarize=-1,
    )
    with tf.control_dependencies([check]):
        return tf.identity(lengths[0])


def _slice(component, begin, end):
    if component is None:
        return None
    if isinstance(component, tf.SparseTensor):
        rest = component.dense_shape[1:]
        starts = tf.concat([[begin], tf.zeros_like(rest)], 0)
        part = tf.sparse.slice(component, starts, tf.concat([[end - begin], rest], 0))
    else:
        part = component[begin:end]
    if isinstance(component, tf.RaggedTensor) or component.shape.rank is None:
        return part
    # Keras leaves a loss of a shape that is known to be (0,) as it is, rather than reduce it.
    is_known = isinstance(end, int) and end > begin
    shape = [end - begin if is_known else None, *component.shape[1:]]
    if isinstance(part, tf.SparseTensor):
        part.set_shape(shape)
        return part
    return part if is_known else tf.compat.v1.placeholder_with_default(part, shape)


def _weighted(part, num_local, num_samples):
    x, y, *weights = part
    share = tf.math.divide_no_nan(
        tf.cast(num_local, tf.float32) * size(), tf.cast(num_samples, tf.float32)
    )
    if not weights or weights[0] is None:
        return x, y, WeightedShards(tf.ones([num_local]), share)

    def with_share(weight):
        weight = weight if weight.dtype.is_floating else tf.cast(weight, tf.float32)
        return WeightedShards(weight, share)

    return x, y, tf.nest.map_structure(with_share, weights[0])
