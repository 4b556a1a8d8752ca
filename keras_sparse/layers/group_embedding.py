import keras

from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.layers.distributed_embedding import DistributedEmbedding
from keras_sparse.layers.distributed_embedding import PLACES
from keras_sparse.utils import checks

# Elements of a table that no table exceeds: all of them are copied to all ranks.
_ANY_TABLE = 2**62


@keras.saving.register_keras_serializable(package="keras_sparse")
class GroupEmbedding(DistributedEmbedding):
    """Embedding layers that are looked up together: DeepRec's group embedding as a Keras layer.

    A step costs one native op for all of them and, over ranks, as many exchanges as one of them.
    Tables may have any mixture of widths, combiners and weights, and without a combiner an input is
    a sequence of rows. See `keras_sparse.ops.group_embedding_lookup_sparse` for tables of your own.

    Args:
        embeddings: List of unbuilt embedding layers, or a dict of them by name, as of
            `DistributedEmbedding`.
        mode: `"collective"`: tables are spread over the ranks. `"localized"`: each rank has all of
            every table and exchanges nothing but gradients, which an
            `keras_sparse.distribute.DistributedOptimizer` averages; for static tables that fit into
            the memory of each rank. On one rank both are the same. Defaults to `"collective"`.
        output_mode: `"list"`: an output an input. `"concat"`: one tensor of shape `(batch, sum of
            widths)`. `"stack"`: one of shape `(batch, inputs, width)`, of tables of one width. As
            of `DistributedEmbedding`. Defaults to `"list"`.
        **kwargs: As of `DistributedEmbedding`; where mode says where tables are, not those that
            do: `strategy`, the thresholds and `dp_input`.

    Call arguments, output: As of `DistributedEmbedding`.

    Example:
    >>> layer = GroupEmbedding(
    ...     [keras_sparse.layers.Embedding(None, dim, combiner)
    ...      for dim, combiner in [(4, "sum"), (16, "mean")]]
    ... )
    >>> users, items = layer([tf.ragged.constant([[3], [7, 9]]), tf.constant([[1, 2], [5, 5]])])
    >>> users.shape, items.shape
    (TensorShape([2, 4]), TensorShape([2, 16]))
    """

    def __init__(self, embeddings, mode="collective", output_mode="list", **kwargs):
        checks.one_of(mode, ("collective", "localized"), "mode")
        if mode == "localized":
            _check_localized(kwargs)
            kwargs = {**kwargs, "data_parallel_threshold": _ANY_TABLE}
        super().__init__(embeddings, output_mode=output_mode, **kwargs)
        self.mode = mode
        if mode == "localized" and size() > 1:
            self._refuse_dynamic()

    def _refuse_dynamic(self):
        for layer, name in zip(self.templates.layers, self.templates.names, strict=True):
            if layer.input_dim is None:
                raise ValueError(
                    f'[rank {rank()} of {size()}] `mode="localized"` must be that of static tables '
                    "where there are several ranks, as copies of a dynamic one would not stay the "
                    'same. Use mode="collective". Received: dynamic table '
                    f"'{name}'"
                )

    def get_config(self):
        config = {**super().get_config(), "mode": self.mode}
        if self.mode == "localized":
            for name in (*PLACES, "dp_input"):
                del config[name]
        return config


def _check_localized(options):
    given = [name for name in (*PLACES, "dp_input") if name in options]
    if given:
        raise ValueError(
            f'`{given[0]}` must not be given with `mode="localized"`, where every rank has all '
            f"tables. Received: {given[0]}={options[given[0]]!r}"
        )
