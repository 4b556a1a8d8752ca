"""Models that answer requests: what SavedModels hold, and models that follow a training."""

from keras_sparse.saved_model.export_options import export_options as export_options
from keras_sparse.saving.checkpoint.apply_delta import apply_delta as apply_delta
from keras_sparse.saving.checkpoint.follow import follow as follow
from keras_sparse.saving.checkpoint.follow import Follower as Follower
from keras_sparse.saving.keras_layers.to_keras import to_keras as to_keras
