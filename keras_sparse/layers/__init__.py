"""Keras layers that look rows up, and what goes before them."""

from keras_sparse.layers.distributed_embedding import DistributedEmbedding as DistributedEmbedding
from keras_sparse.layers.embedding import Embedding as Embedding
from keras_sparse.layers.group_embedding import GroupEmbedding as GroupEmbedding
from keras_sparse.layers.integer_lookup import IntegerLookup as IntegerLookup
