import keras
import tensorflow as tf

from keras_sparse.layers.all2all_embedding import All2AllEmbedding
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class All2AllDenseEmbedding(All2AllEmbedding):
    """Looks up one row per key of fixed-size slots, sharded by rows over ranks.

    The layer replaces the one of the same name in SparseOperationKit. All slots share one table;
    the row of a key is on rank `key % size`, also for negative keys. Each rank passes its own
    samples, and keys are deduplicated before the exchange. A lookup never creates a row: a key gets
    its row at its first gradient and returns its initial row until then.

    Train the layer with `keras_sparse.distribute.DistributedOptimizer` on several ranks. `stats()`
    and `evict()` return their results under the name of the table, `"embeddings"`.

    Args:
        max_vocabulary_size_per_gpu: Integer. Largest number of rows of each rank, with or without a
            GPU. Before an update that would exceed it, `eviction` makes room. If room is still
            missing, the update raises `tf.errors.ResourceExhaustedError` and changes nothing, on
            any rank. With `use_hashtable=False`, keys are in
            `[0, max_vocabulary_size_per_gpu * size)`.
        embedding_vec_size: Integer. Width of a row.
        slot_num: Integer. Number of slots per sample.
        nnz_per_slot: Integer. Number of keys per slot.
        dynamic_input: Boolean. Whether keys are a flat list of any length, which may differ by rank
            and step. `slot_num` and `nnz_per_slot` are then ignored. Defaults to `False`.
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
        inputs: Integer tensor of shape `(batch_size, slot_num, nnz_per_slot)`, or `(n,)` with
            `dynamic_input=True`.
        training: Ignored; accepted for code that passes it. Defaults to `None`.

    Output shape: `(batch_size, slot_num, nnz_per_slot, embedding_vec_size)`, or
        `(n, embedding_vec_size)` with `dynamic_input=True`.

    Example:
    >>> layer = All2AllDenseEmbedding(1000, 4, slot_num=3, nnz_per_slot=2)
    >>> layer(tf.zeros((8, 3, 2), tf.int64)).shape
    TensorShape([8, 3, 2, 4])
    """

    def __init__(
        self,
        max_vocabulary_size_per_gpu,
        embedding_vec_size,
        slot_num,
        nnz_per_slot,
        dynamic_input=False,
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
        super().__init__(
            None,
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
        self.nnz_per_slot = checks.positive(nnz_per_slot, "nnz_per_slot")
        self.dynamic_input = checks.boolean(dynamic_input, "dynamic_input")

    def __call__(self, inputs, training=None, **kwargs):  # type: ignore[override]  # no weights
        return super().__call__(inputs, **kwargs)

    def _in_order(self, inputs):
        (inputs,) = super()._in_order(inputs)
        expected = (None,) if self.dynamic_input else (None, self.slot_num, self.nnz_per_slot)
        if isinstance(inputs, (tf.SparseTensor, tf.RaggedTensor)) or not tf.TensorShape(
            inputs.shape
        ).is_compatible_with(expected):
            form = (
                "(n,) with dynamic_input=True"
                if self.dynamic_input
                else (
                    f"(batch_size, slot_num, nnz_per_slot): (None, {self.slot_num}, "
                    f"{self.nnz_per_slot})"
                )
            )
            raise ValueError(
                f"`inputs` must be a tensor of shape {form}. Received: {type(inputs).__name__} of "
                f"shape {tuple(inputs.shape)}"
            )
        self._check_key_dtype(inputs)
        return [inputs]

    def call(self, inputs, training=None):
        if not self.dynamic_input:
            inputs = tf.ensure_shape(inputs, (None, self.slot_num, self.nnz_per_slot))
        return super().call(inputs)

    def compute_output_shape(self, input_shape):
        return (*input_shape, self._options().output_dim)

    def compute_output_spec(self, inputs, training=None):
        return super().compute_output_spec(inputs)

    def get_config(self):
        names = ("nnz_per_slot", "dynamic_input")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
