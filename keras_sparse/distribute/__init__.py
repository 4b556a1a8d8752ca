"""Tables on many ranks."""

from keras_sparse.distribute.metrics.average_metrics import average_metrics as average_metrics
from keras_sparse.distribute.metrics.metric_average import MetricAverage as MetricAverage
from keras_sparse.distribute.metrics.stop_together import StopTogether as StopTogether
from keras_sparse.distribute.planner.cost_model import CostModel as CostModel
from keras_sparse.distribute.planner.placement import plan_placement as plan_placement
from keras_sparse.distribute.planner.plan import Plan as Plan
from keras_sparse.distribute.planner.table_placement import TablePlacement as TablePlacement
from keras_sparse.distribute.planner.table_slice import TableSlice as TableSlice
from keras_sparse.distribute.planner.table_spec import TableSpec as TableSpec
from keras_sparse.distribute.ranks.runtime import init as init
from keras_sparse.distribute.ranks.runtime import local_rank as local_rank
from keras_sparse.distribute.ranks.runtime import local_size as local_size
from keras_sparse.distribute.ranks.runtime import rank as rank
from keras_sparse.distribute.ranks.runtime import size as size
from keras_sparse.distribute.training.broadcast_variables import (
    broadcast_variables as broadcast_variables,
)
from keras_sparse.distribute.training.distributed_gradient_tape import (
    DistributedGradientTape as DistributedGradientTape,
)
from keras_sparse.distribute.training.distributed_optimizer import (
    DistributedOptimizer as DistributedOptimizer,
)
from keras_sparse.distribute.training.shard import shard as shard
