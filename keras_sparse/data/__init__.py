"""tf.data stages for training with tables."""

from keras_sparse.data.prefetch_lookups import prefetch_lookups as prefetch_lookups
from keras_sparse.distribute.training.shard import shard as shard
