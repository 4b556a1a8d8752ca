"""tf.data stages for training with tables."""

from keras_sparse.data.shard import shard as shard
