"""Where the rows of a table are kept, and which keys get one."""

from keras_sparse.storage.cbf_filter import CBFFilter as CBFFilter
from keras_sparse.storage.counter_filter import CounterFilter as CounterFilter
from keras_sparse.storage.miss_curve import miss_curve as miss_curve
from keras_sparse.storage.miss_curve import MissCurve as MissCurve
from keras_sparse.storage.probability_filter import ProbabilityFilter as ProbabilityFilter
from keras_sparse.storage.storage_option import StorageOption as StorageOption
from keras_sparse.storage.storage_type import StorageType as StorageType
