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
    """Represents a native table of embedding rows as a Keras variable.

    Keras treats it as a trainable variable: a layer tracks it, and `tape.gradient` returns
    `tf.IndexedSlices` for it. Its rows and the optimizer's slots live in the native table.
    `keras_sparse.ops.lookup` reads the rows, and the optimizers of `keras_sparse.optimizers` update
    them. TensorFlow sees a small anchor for gradients as the value of the variable, and computing
    with the variable itself raises `TypeError`.

    A static table has a row for each id in `[0, input_dim)`. A dynamic table accepts any int64 key:
    a lookup returns the initial row of a key without a row, and the first gradient creates the row.
    An `admission` filter changes both.

    Args:
        input_dim: Integer or `None`. Number of rows of a static table, or `None` for a dynamic
            table.
        output_dim: Integer. Width of a row.
        initializer: `keras.initializers.Initializer` or its name. A static table also takes any
            callable, which is called for the whole table at once, as in Keras, and needs as much
            memory again. A callable with the arguments `partition_shape` and `partition_offset` is
            called for some thousand rows at a time. Defaults to `"uniform"`.
        seed: Integer. Seed of the initial rows; each row depends on the seed and its id. A seed
            that was given to the initializer takes precedence. Defaults to `None`: Keras' default,
            which `keras.utils.set_random_seed` makes reproducible.
        out_of_range: `"error"` or `"zero"`. The effect of an id outside a static table: an error,
            or a row of zeros that `stats()` counts. Defaults to `"error"`.
        storage: `keras_sparse.StorageOption`. The tiers that hold the rows of the table; a static
            table keeps all rows in the first tier. Defaults to `None`: memory alone.
        admission: Filter of `keras_sparse.storage`, such as `CounterFilter`. Decides when an id of
            a dynamic table gets a row. Defaults to `None`: at its first gradient.
        eviction: Policy of `keras_sparse.storage`, such as `GlobalStepEvict`. Decides which rows
            leave a dynamic table; `LruEvict` and `LfuEvict` make room in a table with `max_rows`.
            Defaults to `None`: no eviction.
        trainable: Boolean. Whether optimizers update the rows. Defaults to `True`.
        name: String. Name of the variable. Defaults to `"embeddings"`.
        part: `keras_sparse.tables.table_part.TablePart`. The part of a table of several ranks that
            this variable holds. `input_dim` and `output_dim` are then those of the part, and its
            initial rows are, bit for bit, those of the whole table. Defaults to `None`: a whole
            table.
        max_rows: Integer. Largest number of rows of a dynamic table, in all tiers together and on
            each rank. Before an update that would exceed it, `eviction` makes room; rows of the
            update itself stay. If room is still missing, the update raises
            `tf.errors.ResourceExhaustedError` and changes nothing, on all ranks that share one
            `keras_sparse.distribute.DistributedOptimizer`. An id that `admission` rejects needs no
            room. Loading keeps every saved row. Defaults to `None`: no limit.
        frequency: Boolean. Whether a dynamic table counts, in 4 bytes per row, the training steps
            in which each row had a gradient. `export(with_frequencies=True)` and
            `keras_sparse.serving.export_options(rows="most_used:N")` need these counts. `LfuEvict`
            counts without this option. Defaults to `False`.
        row_dtype: `"float32"`, `"bfloat16"` or `"float16"`. The dtype in which rows are stored, in
            all tiers, between ranks and in files. Updates compute in float32. Defaults to
            `"float32"`.
        slot_dtype: `"float32"` or `"bfloat16"`. Likewise for the optimizer's slots with one float
            per element; slots with one float per row stay float32. An optimizer raises `ValueError`
            for slots that would break its training. Defaults to `"float32"`.
        rounding: `"stochastic"` or `"nearest"`. How updates round to these dtypes. Stochastic
            rounding draws its random bits from the table's seed, the id, the step and the column,
            so that a run is reproducible; rounding to the nearest loses updates smaller than half a
            bit of the row. Defaults to `"stochastic"`.

    Attributes:
        table: `LocalTable` with the rows and all settings.

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
        row_dtype="float32",
        slot_dtype="float32",
        rounding="stochastic",
    ):
        rows = input_dim, output_dim, initializer, seed, out_of_range
        policies = storage, admission, eviction
        dtypes = row_dtype, slot_dtype, rounding
        config = TableConfig(*rows, *policies, trainable, name, part, max_rows, frequency, *dtypes)
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
        """Creates the table. Keras calls it when the variable receives its value."""
        with tf.init_scope():
            self.table.create(self.path)
            try:
                self._value = make_gradient_anchor(self.table)
            except Exception:
                self.table.native = None  # so that no lookup runs without its gradient
                raise

    def create_early(self):
        """Creates the table while Keras still defers the variables of a new layer."""
        self._initialize_with_initializer(self._initializer)

    def _deferred_initialize(self):
        """Creates the table at the end of the deferral, unless a lookup needed it earlier."""
        if self._value is None:
            super()._deferred_initialize()

    @property
    def value(self):
        """The anchor: a small `tf.Variable` that receives the gradients of lookups."""
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
    row_dtype = of_table("config.row_dtype")
    slot_dtype = of_table("config.slot_dtype")
    rounding = of_table("config.rounding")
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
        """Writes the rows of keys, or all rows of a static table.

        Args:
            value: Keys, as for `Table.assign`. Without `rows`, all rows as in Keras: an array,
                tensor or static `EmbeddingVariable` of shape `(input_dim, output_dim)`, and slots
                stay unchanged.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`. Defaults to `None`.
            slots: Dict from the name of each slot of the optimizer to such rows, as `find` returns
                it. Defaults to `None`: slots stay unchanged, and new rows have initial slots.

        Raises:
            ValueError: Shapes do not match, an id is outside a static table, or `slots` is given
                without `rows`.
            NotImplementedError: The table is dynamic and `rows` is missing.
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
