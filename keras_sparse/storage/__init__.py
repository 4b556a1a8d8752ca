"""Options of tables: where rows are kept, which keys get one, and which rows go."""

from keras_sparse.storage.cbf_filter import CBFFilter as CBFFilter
from keras_sparse.storage.counter_filter import CounterFilter as CounterFilter
from keras_sparse.storage.global_step_evict import GlobalStepEvict as GlobalStepEvict
from keras_sparse.storage.l2_weight_evict import L2WeightEvict as L2WeightEvict
from keras_sparse.storage.lfu_evict import LfuEvict as LfuEvict
from keras_sparse.storage.lru_evict import LruEvict as LruEvict
from keras_sparse.storage.miss_curve import miss_curve as miss_curve
from keras_sparse.storage.miss_curve import MissCurve as MissCurve
from keras_sparse.storage.probability_filter import ProbabilityFilter as ProbabilityFilter
from keras_sparse.storage.storage_option import StorageOption as StorageOption
from keras_sparse.storage.storage_type import StorageType as StorageType
from keras_sparse.storage.time_to_live import TimeToLive as TimeToLive
