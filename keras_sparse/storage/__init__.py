"""Where the rows of a table are kept."""

from keras_sparse.storage.storage_option import StorageOption as StorageOption
from keras_sparse.storage.storage_type import StorageType as StorageType
