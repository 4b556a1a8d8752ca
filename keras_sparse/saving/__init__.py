"""Tables in Keras' own files: `model.save`, `model.save_weights` and what loads them."""

from keras_sparse.saving import load_weights as _load_weights  # noqa: F401  (for its effect)
from keras_sparse.saving.load_table import load_table as load_table
from keras_sparse.saving.save_table import save_table as save_table
from keras_sparse.saving.verify import verify as verify
