"""Keras optimizers that also train embedding variables."""

from keras_sparse.optimizers.adadelta import Adadelta as Adadelta
from keras_sparse.optimizers.adagrad import Adagrad as Adagrad
from keras_sparse.optimizers.adagrad_decay import AdagradDecay as AdagradDecay
from keras_sparse.optimizers.adam import Adam as Adam
from keras_sparse.optimizers.adam_async import AdamAsync as AdamAsync
from keras_sparse.optimizers.adamax import Adamax as Adamax
from keras_sparse.optimizers.adamw import AdamW as AdamW
from keras_sparse.optimizers.from_keras import from_keras as from_keras
from keras_sparse.optimizers.ftrl import Ftrl as Ftrl
from keras_sparse.optimizers.lazy_adam import LazyAdam as LazyAdam
from keras_sparse.optimizers.lion import Lion as Lion
from keras_sparse.optimizers.multi_optimizer import MultiOptimizer as MultiOptimizer
from keras_sparse.optimizers.nadam import Nadam as Nadam
from keras_sparse.optimizers.rmsprop import RMSprop as RMSprop
from keras_sparse.optimizers.row_wise_adagrad import RowWiseAdagrad as RowWiseAdagrad
from keras_sparse.optimizers.sgd import SGD as SGD
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer as SparseOptimizer
from keras_sparse.optimizers.split import (
    split_embedding_variable_from_others as split_embedding_variable_from_others,
)
