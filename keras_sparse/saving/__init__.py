"""Tables in Keras' own files, and checkpoints of models with tables of any size."""

from keras_sparse.saved_model.export_options import export_options as export_options
from keras_sparse.saving.checkpoint.apply_delta import apply_delta as apply_delta
from keras_sparse.saving.checkpoint.follow import follow as follow
from keras_sparse.saving.checkpoint.follow import Follower as Follower
from keras_sparse.saving.checkpoint.load_checkpoint import CheckpointInfo as CheckpointInfo
from keras_sparse.saving.checkpoint.load_checkpoint import load_checkpoint as load_checkpoint
from keras_sparse.saving.checkpoint.save_checkpoint import save_checkpoint as save_checkpoint
from keras_sparse.saving.checkpoint.save_delta import save_delta as save_delta
from keras_sparse.saving.checkpoint.whole_checkpoint import latest_checkpoint as latest_checkpoint
from keras_sparse.saving.format.damage_error import CheckpointDamagedError as CheckpointDamagedError
from keras_sparse.saving.keras_files.load_report import LoadReport as LoadReport
from keras_sparse.saving.keras_files.load_table import load_table as load_table
from keras_sparse.saving.keras_files.load_weights import load_weights as load_weights
from keras_sparse.saving.keras_files.save_table import save_table as save_table
from keras_sparse.saving.keras_layers.to_keras import to_keras as to_keras
from keras_sparse.saving.verify import verify as verify
