"""Keras callbacks for tables."""

from keras_sparse.callbacks.broadcast_global_variables import (
    BroadcastGlobalVariables as BroadcastGlobalVariables,
)
from keras_sparse.callbacks.checkpoint import Checkpoint as Checkpoint
from keras_sparse.callbacks.evict_rows import EvictRows as EvictRows
from keras_sparse.callbacks.tensorboard import TensorBoard as TensorBoard
from keras_sparse.callbacks.tier_stats import TierStats as TierStats
