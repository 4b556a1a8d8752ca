"""Keras optimizers that also train embedding variables."""

from keras_sparse.optimizers import loss_scale as _loss_scale  # noqa: F401  (for its effect)
from keras_sparse.optimizers.adagrad import Adagrad as Adagrad
from keras_sparse.optimizers.lazy_adam import LazyAdam as LazyAdam
from keras_sparse.optimizers.sgd import SGD as SGD
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer as SparseOptimizer
from keras_sparse.optimizers.split import (
    split_embedding_variable_from_others as split_embedding_variable_from_others,
)
