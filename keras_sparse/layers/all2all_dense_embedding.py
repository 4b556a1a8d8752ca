import keras
import tensorflow as tf

from keras_sparse.layers.all2all_embedding import All2AllEmbedding
from keras_sparse.utils import checks


@keras.saving.register_keras_serializable(package="keras_sparse")
class All2AllDenseEmbedding(All2AllEmbedding):
    """A row for each key of a fixed number of slots: SparseOperationKit's layer of that name.

    All slots share one table, whose rows are spread over the ranks: that of a key is on rank
    `key % size`, of a negative key too. Each rank passes its own samples. Keys are made distinct
    before they travel. Looking up, in training or not, makes no row: a key gets its own with its
    first gradient, and reads as its initial one until then.

    Train it with `keras_sparse.distribute.DistributedOptimizer` on several ranks. `stats()` and
    `evict()` give theirs under the name of the table, `"embeddings"`.

    Args:
        max_vocabulary_size_per_gpu: Integer: the most rows that a rank may have, whether it has a
            GPU or not: `max_rows` of `keras_sparse.layers.Embedding`. Before an update that would
            make more, rows go by `eviction`; if there is still too little room, it is a
            `tf.errors.ResourceExhaustedError` and updates nothing, on no rank. Without a hash
            table keys are in `[0, max_vocabulary_size_per_gpu * size)`.
        embedding_vec_size: Integer. Width of a row.
        slot_num: Integer. Slots of a sample.
        nnz_per_slot: Integer. Keys of a slot.
        dynamic_input: Boolean. Whether keys come as a list of any length, which may differ by rank
            and step; `slot_num` and `nnz_per_slot` then say nothing. Defaults to `False`.
        use_hashtable: Boolean. Whether the table takes any key. If not, a key is the number of its
            row, and one out of range an error; the table then has `max_vocabulary_size_per_gpu`
            times the ranks rows. A file of it is for any number of ranks that divides these.
            Defaults to `True`.
        key_dtype: `"int32"`, `"uint32"`, `"int64"` or `"uint64"`: keys of a dtype that this one
            does not hold are an error. Defaults to `"int64"`.
        embedding_initializer: A `keras.initializers.Initializer` or its name. Defaults to
            `"random_uniform"`, from -0.05 to 0.05.
        seed, storage, admission, eviction, frequency: As of `keras_sparse.layers.Embedding`; the
            last four with a hash table alone. Default to `None`, `frequency` to `False`.
        **kwargs: `name`, `dtype`, `trainable`, `wire_dtype` as of `DistributedEmbedding`.

    Call arguments:
        inputs: Integer tensor of shape `(batch_size, slot_num, nnz_per_slot)`, or `(n,)` with
            `dynamic_input`.
        training: Without a meaning here; for code that passes it. Defaults to `None`.

    Output shape: `(batch_size, slot_num, nnz_per_slot, embedding_vec_size)`, or
        `(n, embedding_vec_size)`.

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
