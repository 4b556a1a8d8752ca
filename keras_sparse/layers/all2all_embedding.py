import keras
import numpy as np
import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.symbolic_inputs import FloatIdsError
from keras_sparse.inputs.symbolic_inputs import is_placeholder
from keras_sparse.layers.distributed_embedding import DistributedEmbedding
from keras_sparse.layers.embedding import Embedding
from keras_sparse.utils import checks

KEY_DTYPES = ("int32", "uint32", "int64", "uint64")


class All2AllEmbedding(DistributedEmbedding):
    """Base class of SparseOperationKit's layers with one table, sharded by rows.

    The row of a key is on rank `key % size`, also for negative keys.

    Args:
        combiner: String, or `None` for one row per key.
        max_vocabulary_size_per_gpu, embedding_vec_size, slot_num, use_hashtable, key_dtype,
            embedding_initializer, seed: See `All2AllDenseEmbedding`.
        hashtable_options: Dict with `storage`, `admission`, `eviction` and `frequency`, for a hash
            table alone.
        dtypes: Dict with `row_dtype`, `slot_dtype` and `rounding`.
        **kwargs: `name`, `dtype`, `trainable` and `wire_dtype` of `DistributedEmbedding`.
    """

    def __init__(
        self,
        combiner,
        max_vocabulary_size_per_gpu,
        embedding_vec_size,
        slot_num,
        use_hashtable,
        key_dtype,
        embedding_initializer,
        seed,
        hashtable_options,
        dtypes,
        **kwargs,
    ):
        checks.positive(max_vocabulary_size_per_gpu, "max_vocabulary_size_per_gpu")
        checks.positive(embedding_vec_size, "embedding_vec_size")
        if not checks.boolean(use_hashtable, "use_hashtable"):
            _refuse_options(hashtable_options)
        table = Embedding(
            None if use_hashtable else max_vocabulary_size_per_gpu * size(),
            embedding_vec_size,
            combiner,
            keras.initializers.get(embedding_initializer or "random_uniform"),
            seed,
            **hashtable_options,
            **dtypes,
            max_rows=max_vocabulary_size_per_gpu if use_hashtable else None,
            name="embeddings",
            dtype=kwargs.get("dtype"),
        )
        super().__init__(table, row_slice_threshold=1, **kwargs)
        self.max_vocabulary_size_per_gpu = max_vocabulary_size_per_gpu
        self.slot_num = checks.positive(slot_num, "slot_num")
        self.use_hashtable = use_hashtable
        key_dtype = keras.backend.standardize_dtype(key_dtype or "int64")
        self.key_dtype = checks.one_of(key_dtype, KEY_DTYPES, "key_dtype")

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(ids_as_tensor(inputs), *args, **kwargs)

    def _options(self):
        """Returns an unbuilt `Embedding` with the options of the table."""
        return self.templates.layers[0]  # no attribute: Keras would save it as a layer of this one

    def _check_key_dtype(self, inputs):
        dtype = tf.as_dtype(inputs.dtype)
        if np.can_cast(dtype.as_numpy_dtype, self.key_dtype) or is_placeholder(dtype):
            return
        raise (FloatIdsError if dtype.is_floating else TypeError)(
            f"`inputs` must be integers that fit key_dtype={self.key_dtype}. Cast them, pass "
            'dtype="int64" to keras.Input, or another `key_dtype` to the layer. Received: '
            f"inputs of dtype {dtype.name}"
        )

    def get_config(self):
        config = keras.layers.Layer.get_config(self)
        names = ("max_vocabulary_size_per_gpu", "slot_num", "use_hashtable", "key_dtype")
        config |= {name: getattr(self, name) for name in names}
        of_table = self._options().get_config()
        config["embedding_vec_size"] = of_table["output_dim"]
        config["embedding_initializer"] = of_table["embeddings_initializer"]
        of_hash_table = ("storage", "admission", "eviction", "frequency")
        dtypes = ("row_dtype", "slot_dtype", "rounding")
        config |= {name: of_table[name] for name in ("seed", *of_hash_table, *dtypes)}
        return {**config, "wire_dtype": self.wire_dtype, "num_ranks": size()}

    @classmethod
    def from_config(cls, config):
        """Creates a layer whose static table keeps its size on another number of ranks."""
        config = dict(config)
        num_ranks = config.pop("num_ranks", size())
        if not config["use_hashtable"]:
            num_rows = config["max_vocabulary_size_per_gpu"] * num_ranks
            if num_rows % size():
                raise ValueError(
                    "A layer with use_hashtable=False must run on a number of ranks that "
                    f"divides its rows. Start such a number, for example {num_ranks}. Received: "
                    f"config of {num_rows} rows, max_vocabulary_size_per_gpu * num_ranks, on "
                    f"{size()} ranks"
                )
            config["max_vocabulary_size_per_gpu"] = num_rows // size()
        return super().from_config(config)


def _refuse_options(options):
    for name, option in options.items():
        if option not in (None, False):
            raise ValueError(
                f"`{name}` must be used with a hash table. Leave out use_hashtable=False. "
                f"Received: {name}={option!r}"
            )
