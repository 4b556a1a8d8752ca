import functools
import inspect
import operator
from typing import Any

import keras
import numpy as np

from keras_sparse.saved_model.reject_tf_checkpoint import reject_tf_checkpoint
from keras_sparse.tables.gradient_anchor import refuse_optimizer
from keras_sparse.tables.local_table import LocalTable


def of_table(name):
    """Returns the property of a variable that its table has by a name, as it is described there."""
    described = getattr(LocalTable, name, None)
    doc = described.__doc__ if isinstance(described, property) else None
    # Python would take that of `attrgetter` for it.
    return property(operator.attrgetter(f"table.{name}"), doc=doc or "")


def by_table(method):
    """Returns the method of a variable that its table does."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        return method(self.table, *args, **kwargs)

    call.__doc__ = inspect.getdoc(method)  # which may be that of `Table`
    return call


class VariableBase(keras.Variable):
    """What Keras and TensorFlow ask of each variable, where that of a table answers otherwise.

    It refuses to be computed with as a whole. A SavedModel has a `SavedTable` in its place, and
    checkpoints of TensorFlow are refused.

    Attributes:
        table: `LocalTable`.
        is_of_ranks: Boolean. Whether it is a part or a copy of a table that several ranks have: a
            SavedModel has that, by the layer, and nothing of this variable.
    """

    table: Any
    is_of_ranks = False

    saved_table = of_table("saved_table")

    @property
    def device(self):
        """The table's device. Functions of TensorFlow read it before they compute."""
        return self.value.device

    def __array__(self, dtype=None, copy=None):
        self.table.refuse_part("read as an array")
        return np.asarray(self.numpy(), dtype)

    def _refuse_computation(self, *args, **kwargs):
        raise TypeError(
            "An embedding variable cannot be computed with as a whole. Read rows with its layer "
            "(to tie weights, multiply by `layer(np.arange(input_dim))`), or with "
            "`keras_sparse.ops.lookup`, `embedding_lookup`, `embedding_lookup_sparse` or "
            "`safe_embedding_lookup_sparse`, or read a static table with `.numpy()`. Exclude "
            "tables from a norm or a sum over `model.weights`: `isinstance(each, "
            "keras_sparse.EmbeddingVariable)`; L2 terms are a layer's `embeddings_regularizer`. "
            f"Received: variable '{self.path}'"
        )

    __tf_tensor__ = __getitem__ = __neg__ = __pos__ = __abs__ = __invert__ = _refuse_computation
    __lt__ = __le__ = __gt__ = __ge__ = __round__ = _refuse_computation
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_computation
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refuse_computation
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse_computation
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse_computation
    __matmul__ = __rmatmul__ = assign_add = assign_sub = _refuse_computation

    # Stock optimizers read this before they make a slot as large as the variable.

    @property
    def _layout(self):
        refuse_optimizer(self.path)

    @_layout.setter
    def _layout(self, layout):
        pass

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        reject_tf_checkpoint(save_type, "Embedding variables", f"variable '{self.path}'")
        return {} if self.is_of_ranks else {"saved_table": self.saved_table}

    # Of itself it has nothing there.

    def _serialize_to_tensors(self):
        return {}

    def _export_to_saved_model_graph(self, object_map, tensor_map, options, **kwargs):
        return []

    def _write_object_proto(self, proto, options):
        proto.user_object.identifier = "_generic_user_object"
        proto.user_object.version.producer = proto.user_object.version.min_consumer = 1
