"""Keras layers that look rows up, and what goes before them."""

from keras_sparse.layers.all2all_dense_embedding import (
    All2AllDenseEmbedding as All2AllDenseEmbedding,
)
from keras_sparse.layers.all2all_sparse_embedding import (
    All2AllSparseEmbedding as All2AllSparseEmbedding,
)
from keras_sparse.layers.distributed_embedding import DistributedEmbedding as DistributedEmbedding
from keras_sparse.layers.embedding import Embedding as Embedding
from keras_sparse.layers.group_embedding import GroupEmbedding as GroupEmbedding
from keras_sparse.layers.group_embedding_scope import group_embedding_scope as group_embedding_scope
from keras_sparse.layers.integer_lookup import IntegerLookup as IntegerLookup
