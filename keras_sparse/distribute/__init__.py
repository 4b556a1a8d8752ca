"""Tables on many ranks."""

from keras_sparse.data.shard import shard as shard
from keras_sparse.distribute.average_metrics import average_metrics as average_metrics
from keras_sparse.distribute.broadcast_variables import broadcast_variables as broadcast_variables
from keras_sparse.distribute.cost_model import CostModel as CostModel
from keras_sparse.distribute.distributed_gradient_tape import (
    DistributedGradientTape as DistributedGradientTape,
)
from keras_sparse.distribute.distributed_optimizer import (
    DistributedOptimizer as DistributedOptimizer,
)
from keras_sparse.distribute.metric_average import MetricAverage as MetricAverage
from keras_sparse.distribute.placement import plan_placement as plan_placement
from keras_sparse.distribute.plan import Plan as Plan
from keras_sparse.distribute.runtime import init as init
from keras_sparse.distribute.runtime import local_rank as local_rank
from keras_sparse.distribute.runtime import local_size as local_size
from keras_sparse.distribute.runtime import rank as rank
from keras_sparse.distribute.runtime import size as size
from keras_sparse.distribute.stop_together import StopTogether as StopTogether
from keras_sparse.distribute.table_placement import TablePlacement as TablePlacement
from keras_sparse.distribute.table_slice import TableSlice as TableSlice
from keras_sparse.distribute.table_spec import TableSpec as TableSpec
