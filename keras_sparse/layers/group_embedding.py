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
    """Looks up a group of embedding tables in one native op.

    A step needs one native op for all tables of the group and, over ranks, as many exchanges as for
    one table. Tables may have any mixture of widths, combiners and weights; without a combiner, an
    input gives a sequence of rows. The layer replaces the group embedding of DeepRec. Use
    `keras_sparse.ops.group_embedding_lookup_sparse` for tables outside a layer.

    Args:
        embeddings: List of unbuilt embedding layers, dict of such layers by name, or one layer:
            `keras.layers.Embedding`, `keras_sparse.layers.Embedding` with all its options, or a
            subclass that computes nothing else. All ranks must pass the same layers.
        mode: `"collective"` or `"localized"`. `"collective"` shards the tables over ranks.
            `"localized"` replicates every table on each rank and exchanges only gradients, which a
            `keras_sparse.distribute.DistributedOptimizer` averages; it needs static tables that fit
            into the memory of each rank. Both are the same on one rank. Defaults to `"collective"`.
        output_mode: `"list"`, `"concat"` or `"stack"`. `"list"` returns one output per input,
            `"concat"` one tensor of shape `(batch_size, sum of widths)`, and `"stack"` one tensor
            of shape `(batch_size, num_inputs, width)` for tables of one width. Defaults to
            `"list"`.
        **kwargs: `name`, `trainable`, `input_table_map`, `memory_budget`, `wire_dtype`,
            `num_slots`, `hotness` and `cost_model` of `DistributedEmbedding`. With
            `mode="collective"` also its `strategy`, `column_slice_threshold`,
            `row_slice_threshold`, `data_parallel_threshold` and `dp_input`.

    Call arguments:
        inputs: List with the ids of each input, dict of ids if `embeddings` is a dict, or ids alone
            if it is one layer. Each entry is of a form that `keras_sparse.layers.Embedding` takes:
            dense, ragged or sparse, in any mixture. Also takes a matrix of ids of shape
            `(batch_size, num_inputs)`, with one id per sample and input.
        weights: Weights of the ids, in the structure of `inputs`. `None` in a list, or a missing
            entry in a dict, stands for weights of 1. Defaults to `None`: 1 for each id.

    Raises:
        ValueError: `mode="localized"` with a placement option of `DistributedEmbedding`, or with a
            dynamic table on several ranks.

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
                    f'[rank {rank()} of {size()}] `mode="localized"` must be used with static '
                    "tables on several ranks, because copies of a dynamic table would diverge. "
                    f"Use mode=\"collective\". Received: dynamic table '{name}'"
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
            f'`{given[0]}` must be left out with `mode="localized"`, where every rank has all '
            f"tables. Received: {given[0]}={options[given[0]]!r}"
        )
