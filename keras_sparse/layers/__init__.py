"""Keras layers that look rows up."""

from keras_sparse.layers.distributed_embedding import DistributedEmbedding as DistributedEmbedding
from keras_sparse.layers.embedding import Embedding as Embedding
