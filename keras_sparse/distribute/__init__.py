"""Tables on many ranks."""

from keras_sparse.distribute.cost_model import CostModel as CostModel
from keras_sparse.distribute.placement import plan_placement as plan_placement
from keras_sparse.distribute.plan import Plan as Plan
from keras_sparse.distribute.table_placement import TablePlacement as TablePlacement
from keras_sparse.distribute.table_slice import TableSlice as TableSlice
from keras_sparse.distribute.table_spec import TableSpec as TableSpec
