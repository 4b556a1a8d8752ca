"""Keras embedding tables that live in a native engine."""

import sys

# Python imports the package before it runs `python -m keras_sparse`: help and mistakes are answered
# here, before TensorFlow is imported.
if sys.argv[:1] == ["-m"] and " -m keras_sparse " in f" {' '.join(sys.orig_argv)} ":
    from keras_sparse.commands.parser import import_quietly
    from keras_sparse.commands.parser import parse

    options = parse()
    if options.module == "keras_sparse.commands.launch_command":
        # It lasts as long as a training, and leaves TensorFlow's memory to the ranks.
        from keras_sparse.commands.run_command import run_command

        sys.exit(run_command(options))
    import_quietly("tensorflow")

# First: others import names that another version of Keras may not have.
from keras_sparse.utils import supported_versions  # noqa: F401  (for its effect)

# isort: split
# Then this: others import modules of it, and would then import all of it in the midst of their own.
from keras_sparse import distribute as distribute

# isort: split
from keras_sparse import callbacks as callbacks
from keras_sparse import data as data
from keras_sparse import layers as layers
from keras_sparse import ops as ops
from keras_sparse import optimizers as optimizers
from keras_sparse import saving as saving
from keras_sparse import serving as serving
from keras_sparse import storage as storage
from keras_sparse.distribute.sok_init import init as init
from keras_sparse.keras_integration import replaced_attributes  # noqa: F401  (for its effect)
from keras_sparse.storage.cbf_filter import CBFFilter as CBFFilter
from keras_sparse.storage.counter_filter import CounterFilter as CounterFilter
from keras_sparse.storage.global_step_evict import GlobalStepEvict as GlobalStepEvict
from keras_sparse.storage.l2_weight_evict import L2WeightEvict as L2WeightEvict
from keras_sparse.storage.lfu_evict import LfuEvict as LfuEvict
from keras_sparse.storage.lru_evict import LruEvict as LruEvict
from keras_sparse.storage.probability_filter import ProbabilityFilter as ProbabilityFilter
from keras_sparse.storage.storage_option import StorageOption as StorageOption
from keras_sparse.storage.storage_type import StorageType as StorageType
from keras_sparse.storage.time_to_live import TimeToLive as TimeToLive
from keras_sparse.tables.embedding_variable import EmbeddingVariable as EmbeddingVariable

__version__ = "0.2.0"
