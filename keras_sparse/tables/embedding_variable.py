import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.copy_table import copy_table
from keras_sparse.tables.gradient_anchor import make_gradient_anchor
from keras_sparse.tables.local_table import LocalTable
from keras_sparse.tables.table_config import TableConfig
from keras_sparse.tables.variable_base import by_table
from keras_sparse.tables.variable_base import of_table
from keras_sparse.tables.variable_base import VariableBase


class EmbeddingVariable(VariableBase):
    """The Keras face of a native table of embedding rows.

    To Keras it is a trainable variable: a layer tracks it, and `tape.gradient` gives
    `tf.IndexedSlices` for it. Its rows, and the optimizer's slots beside them, live in the native
    table. They are read by `keras_sparse.ops.lookup` and changed by the optimizers of
    `keras_sparse.optimizers` alone: what TensorFlow sees as its value is a small anchor for
    gradients, and computing with the variable itself is an error.

    A static table has a row for each id in `[0, input_dim)`. A dynamic one takes any int64 key: a
    lookup reads a key without a row as its initial row, the first gradient makes the row, and
    `admission` changes both.

    Args:
        input_dim: Integer, rows of a static table. `None` for a dynamic one.
        output_dim: Integer. Width of a row.
        initializer: As `embeddings_initializer` of `keras_sparse.layers.Embedding`.
        seed, out_of_range, storage, admission, eviction, max_rows, frequency: As there.
        trainable: Boolean. Defaults to `True`.
        name: String. Defaults to `"embeddings"`.
        part: `keras_sparse.tables.table_part.TablePart`, which this variable holds of a table that
            several ranks share. `input_dim` and `output_dim` are then those of the part; the
            initializer and the seed make the rows of the whole table, of which this has its part,
            bit for bit. Defaults to `None`: a table of its own.

    Attributes:
        table: `LocalTable`, which has the rows, and all that is to be known of them.

    Example:
    >>> table = EmbeddingVariable(None, 8, initializer="zeros")
    >>> keras_sparse.ops.lookup([table], [tf.constant([-5, 2**62])])[0].shape
    TensorShape([2, 8])
    >>> table.num_rows
    0
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        initializer="uniform",
        seed=None,
        out_of_range="error",
        storage=None,
        admission=None,
        eviction=None,
        trainable=True,
        name="embeddings",
        part=None,
        max_rows=None,
        frequency=False,
    ):
        rows = input_dim, output_dim, initializer, seed, out_of_range
        policies = storage, admission, eviction
        config = TableConfig(*rows, *policies, trainable, name, part, max_rows, frequency)
        native.refuse_strategies("created")
        self.table = LocalTable(config)
        super().__init__(
            initializer=self.table.initializer,
            shape=(config.input_dim or 0, config.output_dim),
            dtype="float32",
            trainable=config.trainable,
            autocast=False,
            name=config.name,
        )

    def _initialize_with_initializer(self, initializer):
        """Makes the table. Keras calls it to give a variable its value, once there may be one."""
        with tf.init_scope():
            self.table.create(self.path)
            self._value = make_gradient_anchor(self.table)

    @property
    def value(self):
        """The anchor: a small `tf.Variable` that gradients of lookups arrive at."""
        return tf.zeros(()) if self._value is None else self._value

    @property
    def shape(self):
        return tf.TensorShape((self.num_rows, self.output_dim))

    native = of_table("native")
    input_dim = of_table("input_dim")
    output_dim = of_table("output_dim")
    is_dynamic = of_table("is_dynamic")
    is_on_gpu = of_table("is_on_gpu")
    num_rows = of_table("num_rows")
    initializer = of_table("initializer")
    seed = of_table("config.seed")
    out_of_range = of_table("out_of_range")
    storage = of_table("storage")
    admission = of_table("admission")
    eviction = of_table("eviction")
    max_rows = of_table("max_rows")
    frequency = of_table("frequency")
    part = of_table("part")
    rule = of_table("rule")
    slot_names = of_table("slot_names")
    record_floats = of_table("record_floats")

    contains = by_table(LocalTable.contains)
    find = by_table(LocalTable.find)
    erase = by_table(LocalTable.erase)
    compact = by_table(LocalTable.compact)
    export = by_table(LocalTable.export)
    import_ = by_table(LocalTable.import_)
    promote = by_table(LocalTable.promote)
    evict = by_table(LocalTable.evict)
    stats = by_table(LocalTable.stats)
    clear = by_table(LocalTable.clear)
    numpy = by_table(LocalTable.numpy)

    def assign(self, value, rows=None, slots=None):
        """Writes rows of keys, as `Table.assign`, or with one argument all rows of a static table.

        Args:
            value: Keys. Without `rows`, as in Keras: an array, tensor or static `EmbeddingVariable`
                of shape `(input_dim, output_dim)`; slots stay as they are.
            rows, slots: As of `Table.assign`. Default to `None`.
        """
        if rows is not None:
            self.table.assign(value, rows, slots)
            return None
        if slots is not None:
            raise ValueError("`slots` must be given with `rows`. Received: rows=None")
        is_array = not isinstance(value, (list, tuple, EmbeddingVariable))
        self.table.assign_all(value if is_array else np.asarray(value))
        return value

    def __deepcopy__(self, memo):
        return copy_table(self)

    def __repr__(self):
        rows = "dynamic" if self.is_dynamic else self.input_dim
        return f"<EmbeddingVariable path={self.path}, shape=({rows}, {self.output_dim})>"


def tables_of(model):
    """Returns the `LocalTable` of each embedding variable of a model."""
    return [table_of(each) for each in model.variables if isinstance(each, EmbeddingVariable)]


def table_of(variable):
    """Returns the `LocalTable` of an embedding variable; another `Table` as it is."""
    return variable.table if isinstance(variable, EmbeddingVariable) else variable
