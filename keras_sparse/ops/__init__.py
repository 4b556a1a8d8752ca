"""Lookups in tables and changes of their rows, for layers and training loops of your own."""

from keras_sparse.native.gradients import apply_gradients as apply_gradients
from keras_sparse.native.lookup import lookup as lookup
from keras_sparse.native.pooled_slices import PooledSlices as PooledSlices
from keras_sparse.native.rows import erase_rows as erase_rows
from keras_sparse.native.rows import evict_rows as evict_rows
from keras_sparse.native.rows import have_rows as have_rows
from keras_sparse.native.rows import promote_rows as promote_rows
from keras_sparse.native.rows import read_rows as read_rows
from keras_sparse.ops.embedding_lookup import embedding_lookup as embedding_lookup
from keras_sparse.ops.embedding_lookup_sparse import (
    embedding_lookup_sparse as embedding_lookup_sparse,
)
from keras_sparse.ops.group_embedding_lookup import group_embedding_lookup as group_embedding_lookup
from keras_sparse.ops.group_embedding_lookup_sparse import (
    group_embedding_lookup_sparse as group_embedding_lookup_sparse,
)
from keras_sparse.ops.safe_embedding_lookup_sparse import (
    safe_embedding_lookup_sparse as safe_embedding_lookup_sparse,
)
from keras_sparse.ops.sampled_softmax_loss import sampled_softmax_loss as sampled_softmax_loss
