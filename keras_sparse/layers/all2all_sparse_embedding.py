import keras
import tensorflow as tf

from keras_sparse.layers.all2all_embedding import All2AllEmbedding
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class All2AllSparseEmbedding(All2AllEmbedding):
    """Looks up and pools the keys of each slot, sharded by rows over ranks.

    The layer replaces the sparse `DistributedEmbedding` of SparseOperationKit. All slots share one
    table; the row of a key is on rank `key % size`, also for negative keys. A slot may have any
    number of keys, and an empty slot returns zeros. The layer reserves no memory for a batch, so
    the batch size may differ by step and by rank.

    Train the layer with `keras_sparse.distribute.DistributedOptimizer` on several ranks. `stats()`
    and `evict()` return their results under the name of the table, `"embeddings"`.

    Args:
        combiner: `"sum"`, `"mean"` or `"sqrtn"`, in any case, so that `"Sum"` and `"Mean"` of
            SparseOperationKit work. Pools the rows of a slot.
        max_vocabulary_size_per_gpu: Integer. Largest number of rows of each rank, with or without a
            GPU. Before an update that would exceed it, `eviction` makes room. If room is still
            missing, the update raises `tf.errors.ResourceExhaustedError` and changes nothing, on
            any rank. With `use_hashtable=False`, keys are in
            `[0, max_vocabulary_size_per_gpu * size)`.
        embedding_vec_size: Integer. Width of a row.
        slot_num: Integer. Number of slots per sample.
        max_nnz: Integer. Largest number of keys per slot in SparseOperationKit. Ignored: slots may
            have more keys. Defaults to `None`.
        max_feature_num: Integer. Largest number of keys per sample in SparseOperationKit. Ignored:
            samples may have more keys. Defaults to `None`.
        use_hashtable: Boolean. Whether the table accepts any key. If `False`, a key is the number
            of its row, the table has `max_vocabulary_size_per_gpu` rows for each rank, and a key
            out of range raises an error. A saved file then loads on any number of ranks that
            divides the number of rows. Defaults to `True`.
        key_dtype: `"int32"`, `"uint32"`, `"int64"` or `"uint64"`. Keys of a dtype that this dtype
            cannot represent raise `TypeError`. Defaults to `"int64"`.
        embedding_initializer: `keras.initializers.Initializer` or its name. Defaults to
            `"random_uniform"`, which draws from -0.05 to 0.05.
        seed: Integer. Seed of the initial rows; each row depends on the seed and its id. A seed
            that was given to the initializer takes precedence. Defaults to `None`: Keras' default,
            which `keras.utils.set_random_seed` makes reproducible.
        storage: `keras_sparse.StorageOption`. The tiers that hold the rows of the hash table.
            Requires `use_hashtable=True`. Defaults to `None`: memory alone.
        admission: Filter of `keras_sparse.storage`, such as `CounterFilter`. Decides when a key
            gets a row. Requires `use_hashtable=True`. Defaults to `None`: at its first gradient.
        eviction: Policy of `keras_sparse.storage`, such as `GlobalStepEvict`. Decides which rows
            leave the table; `LruEvict` and `LfuEvict` make room before an update that would exceed
            `max_vocabulary_size_per_gpu`. Requires `use_hashtable=True`. Defaults to `None`: no
            eviction.
        frequency: Boolean. Whether the table counts, in 4 bytes per row, the training steps in
            which each row had a gradient. Requires `use_hashtable=True`. Defaults to `False`.
        row_dtype: `"float32"`, `"bfloat16"` or `"float16"`. The dtype in which rows are stored, in
            all tiers, between ranks and in files. Updates compute in float32. Defaults to
            `"float32"`.
        slot_dtype: `"float32"` or `"bfloat16"`. Likewise for the optimizer's slots with one float
            per element; slots with one float per row stay float32. Defaults to `"float32"`.
        rounding: `"stochastic"` or `"nearest"`. How updates round to these dtypes; see `Embedding`.
            Defaults to `"stochastic"`.
        **kwargs: `name`, `dtype`, `trainable` and `wire_dtype` of `DistributedEmbedding`.

    Call arguments:
        inputs: Keys as a SparseTensor, a RaggedTensor, or a tensor whose slots are all full. Of
            shape `(batch_size * slot_num, max_nnz)`, where row `i` is slot `i % slot_num` of sample
            `i // slot_num`; or `(batch_size, slot_num, max_nnz)`, which has as many samples as the
            targets of `fit`.
        weights: Weight of each key, in the structure of `inputs`. Defaults to `None`: 1 for each
            key.
        training: Ignored; accepted for code that passes it. Defaults to `None`.

    Output shape: `(batch_size, slot_num, embedding_vec_size)`.

    Example:
    >>> layer = All2AllSparseEmbedding("mean", 1000, 4, slot_num=2, max_nnz=3)
    >>> layer(tf.ragged.constant([[1, 2], [], [-7], [3, 4, 5]])).shape
    TensorShape([2, 2, 4])
    """

    def __init__(
        self,
        combiner,
        max_vocabulary_size_per_gpu,
        embedding_vec_size,
        slot_num,
        max_nnz=None,
        max_feature_num=None,
        use_hashtable=True,
        key_dtype="int64",
        embedding_initializer="random_uniform",
        seed=None,
        storage=None,
        admission=None,
        eviction=None,
        frequency=False,
        row_dtype="float32",
        slot_dtype="float32",
        rounding="stochastic",
        **kwargs,
    ):
        combiner = combiner.lower() if isinstance(combiner, str) else combiner
        super().__init__(
            checks.one_of(combiner, ("sum", "mean", "sqrtn"), "combiner"),
            max_vocabulary_size_per_gpu,
            embedding_vec_size,
            slot_num,
            use_hashtable,
            key_dtype,
            embedding_initializer,
            seed,
            {
                "storage": storage,
                "admission": admission,
                "eviction": eviction,
                "frequency": frequency,
            },
            {"row_dtype": row_dtype, "slot_dtype": slot_dtype, "rounding": rounding},
            **kwargs,
        )
        self.max_nnz = checks.positive_or_none(max_nnz, "max_nnz")
        self.max_feature_num = checks.positive_or_none(max_feature_num, "max_feature_num")

    def __call__(self, inputs, weights=None, training=None, **kwargs):
        if isinstance(weights, bool):
            raise TypeError(
                "`weights` must be the weight of each key. In place of SOK's second argument "
                f"`training`, pass training={weights} or leave it out. Received: "
                f"weights={weights}"
            )
        return super().__call__(inputs, weights, **kwargs)

    def _in_order(self, inputs):
        (inputs,) = super()._in_order(inputs)
        sizes = tuple(inputs.shape)
        wrong_slots = len(sizes) == 3 and sizes[1] not in (None, self.slot_num)
        wrong_rows = len(sizes) == 2 and (sizes[0] or 0) % self.slot_num
        if len(sizes) not in (2, 3) or wrong_slots or wrong_rows:
            raise ValueError(
                "`inputs` must be of shape (batch_size * slot_num, max_nnz) or (batch_size, "
                f"slot_num, max_nnz), with slot_num={self.slot_num}. Received: inputs of shape "
                f"{sizes}"
            )
        self._check_key_dtype(inputs)
        return [inputs]

    def call(self, inputs, weights=None, training=None):
        with tf.control_dependencies([self._check_slots(inputs)]):
            weights = None if weights is None else _as_bags(weights)
            rows = super().call(_as_bags(inputs), weights)
        return tf.reshape(rows, (-1, self.slot_num, self._options().output_dim))

    def _check_slots(self, inputs):
        """Returns an op that fails unless all samples have all slots."""
        if len(inputs.shape) == 2:
            what, slots = "rows must be whole samples of", _num_rows(inputs) % self.slot_num
        elif isinstance(inputs, tf.RaggedTensor):
            what, slots = "samples must have", inputs.row_lengths() - self.slot_num
        else:
            sizes = inputs.dense_shape if isinstance(inputs, tf.SparseTensor) else tf.shape(inputs)
            what, slots = "samples must have", sizes[1] - self.slot_num
        message = f"`inputs`: {what} slot_num={self.slot_num} slots"
        return tf.debugging.assert_equal(slots, tf.zeros_like(slots), message)

    def compute_output_shape(self, input_shape):
        num_samples = input_shape[0]
        if num_samples is not None and len(input_shape) == 2:
            num_samples //= self.slot_num
        return (num_samples, self.slot_num, self._options().output_dim)

    def compute_output_spec(self, inputs, weights=None, training=None):
        (inputs,) = self._in_order(inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def get_config(self):
        names = ("max_nnz", "max_feature_num")
        config = {**super().get_config(), "combiner": self._options().combiner}
        return {**config, **{name: getattr(self, name) for name in names}}


def _as_bags(inputs):
    """Returns the inputs with a row a slot."""
    if len(inputs.shape) == 2:
        return inputs
    if isinstance(inputs, tf.SparseTensor):
        sizes = inputs.dense_shape
        return tf.sparse.reshape(inputs, (sizes[0] * sizes[1], sizes[2]))
    if isinstance(inputs, tf.RaggedTensor):
        return inputs.merge_dims(0, 1)
    sizes = tf.shape(inputs)
    return tf.reshape(inputs, (sizes[0] * sizes[1], inputs.shape[2] or sizes[2]))


def _num_rows(inputs):
    if isinstance(inputs, tf.SparseTensor):
        return inputs.dense_shape[0]
    return inputs.nrows() if isinstance(inputs, tf.RaggedTensor) else tf.shape(inputs)[0]
