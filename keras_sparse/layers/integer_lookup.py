import threading

import keras
import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.inputs.ragged_inputs import check_id_dtype
from keras_sparse.inputs.ragged_inputs import ids_as_tensor
from keras_sparse.inputs.ragged_inputs import to_int64
from keras_sparse.saved_model.reject_tf_checkpoint import RejectTfCheckpoint
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model
from keras_sparse.saved_model.saved_table import SavedIndex
from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.saving.keras_files.load_table import keeps_failure
from keras_sparse.utils import checks

_creation = threading.Lock()


@keras.saving.register_keras_serializable(package="keras_sparse")
class IntegerLookup(RejectTfCheckpoint, keras.layers.Layer):
    """Maps integer keys to tokens 1, 2, ... in the order in which training sees them.

    Use it to train a static table on keys that are not known beforehand: give the `Embedding` that
    follows `input_dim=max_tokens + 1`. Token 0 stands for keys without a token: keys that training
    has not seen, or that appeared after all tokens were used. A dynamic table needs no such layer.

    New keys get tokens in calls with `training=True`, as `fit` makes them; `evaluate` and `predict`
    add no keys. In `dataset.map`, call `lookup(ids, training=True)` on one batch at a time:
    `num_parallel_calls` would make the order of keys depend on threads.

    On several ranks, all ranks share their tokens. Each training call exchanges new keys, so all
    ranks must make it. If one rank alone receives a vocabulary,
    `keras_sparse.callbacks.BroadcastGlobalVariables` copies it to the others. Do not call the layer
    in `dataset.map` on several ranks, because ranks read batches at different times; look ids up in
    the model instead.

    Args:
        max_tokens: Integer below 2**32 - 1. Largest number of keys that get a token.
        **kwargs: `name` of `keras.layers.Layer`.

    Call arguments:
        inputs: Keys of any integer dtype: a tensor or array of any rank, nested lists, a
            RaggedTensor or a SparseTensor.
        training: Boolean. Whether new keys get tokens and each key counts in `counts`. Defaults to
            `None`: the mode of the model that calls the layer; `False` outside a model.

    Input shape: any.
    Output shape: the shape of the input, int64.

    Example:
    >>> lookup = IntegerLookup(2)
    >>> lookup([[30, -1], [30, 7]], training=True).numpy()
    array([[1, 2],
           [1, 0]])
    >>> lookup.get_vocabulary()
    [-1, 30, -1]
    """

    def __init__(self, max_tokens, **kwargs):
        super().__init__(**{"dtype": "int64", **kwargs})
        self.max_tokens = checks.positive(max_tokens, "max_tokens")
        if max_tokens >= 2**32 - 1:
            raise ValueError(
                f"`max_tokens` must be below 2**32 - 1. Received: max_tokens={max_tokens}"
            )
        self.supports_jit = False  # the native ops have no XLA kernel
        self.autocast = False  # ids are not cast
        self._vocabulary = None
        self._owner = None
        self._saved_index = None

    def __call__(self, inputs, training=None, **kwargs):
        if training is not None:  # an explicit `None` would hide the model's mode
            kwargs["training"] = training
        return super().__call__(ids_as_tensor(inputs), **kwargs)

    def build(self, input_shape=None):
        if self._vocabulary is None:
            self._vocabulary = native.create_vocabulary(self.max_tokens)
            self._owner = native.Owner(self._vocabulary)

    def call(self, inputs, training=None):
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_flat_values(self._tokens(inputs.flat_values, training))
        if isinstance(inputs, tf.SparseTensor):
            tokens = self._tokens(inputs.values, training)
            return tf.SparseTensor(inputs.indices, tokens, inputs.dense_shape)
        return self._tokens(inputs, training)

    def _tokens(self, keys, training):
        keys = to_int64(keys, None)
        if is_for_saved_model():
            return self._saved_tokens(keys)
        if not training:
            return native.find_tokens(self._vocabulary, keys)
        if size() > 1:
            self._add_keys_of_all_ranks(tf.reshape(keys, (-1,)))
        return native.add_tokens(self._vocabulary, keys)

    @property
    def saved_index(self):
        """The `SavedIndex` of the keys in a SavedModel, created on first access."""
        with _creation:
            if self._saved_index is None:
                with tf.init_scope(), tf.device("CPU"):
                    self._saved_index = SavedIndex(self._saved_content, default_value=0)
        return self._saved_index

    def _saved_tokens(self, keys):
        tokens = self.saved_index.lookup(keys)
        if not len(self._content()[0]):
            return tokens
        # Converters to other formats drop the initializer of the index; no token is right then.
        is_empty = tf.equal(self.saved_index.size(), 0)
        return tf.where(is_empty, tf.constant(-1, tf.int64), tokens)

    def _saved_content(self):
        keys = self._content()[0]
        return tf.constant(keys), tf.range(1, len(keys) + 1, dtype=tf.int64)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        children = super()._trackable_children(save_type, **kwargs)
        return {**children, "saved_index": self.saved_index}

    def _add_keys_of_all_ranks(self, keys):
        has_none = tf.equal(native.find_tokens(self._vocabulary, keys), 0)
        new_keys = tf.unique(tf.boolean_mask(keys, has_none))[0]
        of_ranks = gather(new_keys, collective_name("keras_sparse.integer_lookup"))
        native.add_tokens(self._vocabulary, of_ranks, counts=False)

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, inputs, training=None):
        check_id_dtype(tf.as_dtype(inputs.dtype), None)
        return keras.KerasTensor(
            inputs.shape,
            dtype="int64",
            sparse=bool(getattr(inputs, "sparse", False)),
            ragged=bool(getattr(inputs, "ragged", False)),
        )

    def get_vocabulary(self):
        """Returns the list of keys in the order of their tokens.

        As in Keras, the entry of token 0 is -1.
        """
        return [-1, *self._content()[0].tolist()]

    def vocabulary_size(self):
        """Returns the current number of tokens, including token 0."""
        return len(self._content()[0]) + 1

    @property
    def counts(self):
        """Number of times that this rank has seen each token in training.

        int64 array of shape `(vocabulary_size,)`, from token 0 on. Files store the counts of rank
        0, and all ranks continue with the counts of a loaded file.
        """
        return self._content()[1]

    def set_vocabulary(self, vocabulary, counts=None):
        """Replaces the vocabulary. New keys get the tokens after it.

        Args:
            vocabulary: List or array of integer keys in the order of their tokens, as
                `get_vocabulary` returns it, with -1 for token 0.
            counts: List or array with the count of each token. Defaults to `None`: zeros.

        Raises:
            TypeError: `vocabulary` holds values that are not integers.
            ValueError: `vocabulary` is not one-dimensional or does not begin with -1.
            tf.errors.InvalidArgumentError: The vocabulary has more than `max_tokens` keys or a
                repeated key, or `counts` has another length or a negative number. The layer keeps
                its vocabulary.
        """
        vocabulary = np.asarray(vocabulary)
        if vocabulary.size and vocabulary.dtype.kind not in "iu":
            raise TypeError(
                f"`vocabulary` must be integers. Received: vocabulary of dtype {vocabulary.dtype}"
            )
        if vocabulary.ndim != 1 or not vocabulary.size or vocabulary[0] != -1:
            raise ValueError(
                "`vocabulary` must begin with -1, for token 0, as `get_vocabulary` returns it: "
                f"[-1, *keys]. Received: {vocabulary[:3].tolist()} of shape {vocabulary.shape}"
            )
        self._set_content(vocabulary[1:], np.zeros(len(vocabulary)) if counts is None else counts)

    def broadcast_vocabulary(self, root_rank):
        """Copies the vocabulary and counts of one rank to all ranks.

        All ranks must call it together.

        Args:
            root_rank: Integer. The rank to copy from.
        """
        name = "keras_sparse.integer_lookup.broadcast"
        self._set_content(*broadcast_object(self._content(), root_rank, name))

    def _set_content(self, keys, counts):
        self.build()
        with tf.init_scope():
            native.import_vocabulary(
                self._vocabulary, keys.astype(np.int64), np.asarray(counts, np.int64)
            )

    def _content(self):
        if self._vocabulary is None:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        with tf.init_scope():
            return [each.numpy() for each in native.export_vocabulary(self._vocabulary)]

    def save_own_variables(self, store):
        store["keys"], store["counts"] = self._content()

    def load_own_variables(self, store):
        with keeps_failure(self, store):
            keys = read_dataset(store, "keys", np.int64, (None,))
            counts = read_dataset(store, "counts", np.int64, (len(keys) + 1,))
            # In a rehearsal, a copy checks whether the keys can be loaded.
            layer = (
                IntegerLookup(self.max_tokens, name=self.name)
                if file_context().is_rehearsal
                else self
            )
            layer._set_content(keys, counts)

    def get_config(self):
        return {**super().get_config(), "max_tokens": self.max_tokens}
