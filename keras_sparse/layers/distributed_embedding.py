import keras
import tensorflow as tf

from keras_sparse import checks
from keras_sparse.distribute.cost_model import CostModel
from keras_sparse.distribute.own_tables import make_own_tables
from keras_sparse.distribute.placement import plan_placement
from keras_sparse.distribute.runtime import size
from keras_sparse.distribute.table_spec import TableSpec
from keras_sparse.layers.ragged_form import as_tensor
from keras_sparse.layers.ragged_form import ids_as_tensor
from keras_sparse.layers.ragged_form import ragged_form
from keras_sparse.layers.table_templates import TableTemplates


@keras.saving.register_keras_serializable(package="keras_sparse")
class DistributedEmbedding(keras.layers.Layer):
    """Embedding layers whose tables are spread over the ranks of a training.

    Each rank passes its own part of a batch and gets the rows of it, wherever they are: by
    `strategy` and the thresholds a table is on one rank, cut by columns or by rows, or copied to
    all. A step costs two exchanges on the way forward and one on the way back, however many tables
    there are. On one rank, and so without Horovod, it is its layers in one native op.

    Train it with `keras_sparse.distribute.DistributedOptimizer`.

    Args:
        embeddings: List of unbuilt embedding layers, or a dict of them by name:
            `keras.layers.Embedding`, `keras_sparse.layers.Embedding` with all its options, or a
            layer of your own with the same config. All ranks must give the same.
        strategy: `"basic"`, `"memory_balanced"`, `"memory_optimized"` or `"auto"`: see
            `keras_sparse.distribute.plan_placement`. Defaults to `"basic"`.
        column_slice_threshold, row_slice_threshold, data_parallel_threshold: Integers, elements of
            a table, as in `plan_placement`. Default to `None`.
        input_table_map: List of integers: in which table each input is looked up, so that several
            can share one. For a dict of layers a dict of their names by those of the inputs.
            Defaults to `None`: an input a table.
        memory_budget: Integer, bytes of rows and slots a rank; or a string such as `"16GB"`.
            Defaults to `None`, no limit.
        num_slots: Integer. Slots of the optimizer as wide as a row, for the budget and `"auto"`: 1
            for `Adagrad`, 2 for `Adam`. Defaults to 0.
        hotness: List of floats, or a dict by input: the mean number of ids a sample, for `"auto"`.
            Defaults to `None`: 1 each.
        cost_model: `keras_sparse.distribute.CostModel`, for `"auto"`. Defaults to `None`.
        **kwargs: `name`, `dtype`, `trainable` as in `keras.layers.Layer`.

    Call arguments:
        inputs: List with the ids of each input, or a dict of them if `embeddings` is one. Each is
            what `keras_sparse.layers.Embedding` takes: dense, ragged or sparse, in any mixture. The
            batch may be of another size on each rank, or empty.
        weights: List or dict of the same structure, with the weight of each id; `None` for an input
            without. Defaults to `None` for all.

    Output: A list or dict of what `keras_sparse.layers.Embedding` would give for each input.

    Example:
    >>> layer = DistributedEmbedding(
    ...     [keras.layers.Embedding(1000, 16), keras_sparse.layers.Embedding(None, 8, "mean")]
    ... )
    >>> users, items = layer([tf.constant([3, 7]), tf.ragged.constant([[2**40, 5], []])])
    >>> users.shape, items.shape
    (TensorShape([2, 16]), TensorShape([2, 8]))
    """

    def __init__(
        self,
        embeddings,
        strategy="basic",
        column_slice_threshold=None,
        row_slice_threshold=None,
        data_parallel_threshold=None,
        input_table_map=None,
        memory_budget=None,
        num_slots=0,
        hotness=None,
        cost_model=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.templates = TableTemplates(embeddings, input_table_map)
        self.strategy = strategy
        self.column_slice_threshold = column_slice_threshold
        self.row_slice_threshold = row_slice_threshold
        self.data_parallel_threshold = data_parallel_threshold
        self.memory_budget = memory_budget
        self.num_slots = checks.not_negative(num_slots, "num_slots")
        self.hotness = hotness
        self.cost_model = (
            CostModel.from_config(cost_model) if isinstance(cost_model, dict) else cost_model
        )
        self.supports_jit = False  # the native ops have no XLA kernel
        self.autocast = False  # ids are not cast
        self.supports_masking = any(layer.mask_zero for layer in self.templates.layers)
        self.own_tables = None
        self.plan = self._make_plan()

    def _make_plan(self):
        """Returns the `Plan` of the tables on the ranks there are."""
        templates = self.templates
        hotness = [[] for _ in templates.layers]
        given = [1.0] * templates.num_inputs
        if self.hotness is not None:
            given = templates.in_order(self.hotness, "hotness")
        for table, number in zip(templates.input_tables, given, strict=True):
            hotness[table].append(number)
        tables = [
            TableSpec(
                name,
                layer.input_dim,
                layer.output_dim,
                layer.combiner,
                numbers,
                self.num_slots,
                layer.trainable,
                layer.storage.storage_size[0]
                if layer.storage and layer.storage.storage_size
                else None,
            )
            for name, layer, numbers in zip(templates.names, templates.layers, hotness, strict=True)
        ]
        return plan_placement(
            tables,
            size(),
            self.strategy,
            self.column_slice_threshold,
            self.row_slice_threshold,
            self.data_parallel_threshold,
            templates.input_tables,
            self.memory_budget,
            self.cost_model,
        )

    def __call__(self, inputs, weights=None, **kwargs):
        templates = self.templates
        inputs = [ids_as_tensor(each) for each in templates.in_order(inputs, "inputs")]
        if weights is not None:
            weights = templates.in_order(weights, "weights")
            weights = [None if each is None else as_tensor(each) for each in weights]
            kwargs["weights"] = weights
        return super().__call__(templates.as_given(inputs), **kwargs)

    def build(self, input_shape=None):
        if self.own_tables is not None:
            return
        self.own_tables = make_own_tables(self.plan, self.templates.layers)
        # For Keras to find them.
        self.tables = self.own_tables.variables()
        for variable in self.tables:
            variable.trainable = variable.trainable and self.trainable

    def call(self, inputs, weights=None):
        templates = self.templates
        inputs = templates.in_order(inputs, "inputs")
        weights = [None] * len(inputs) if weights is None else weights
        forms = [
            ragged_form(ids, weight, layer.combiner, layer.input_dim, layer.mask_zero)
            for ids, weight, layer in zip(inputs, weights, self._options_of_inputs(), strict=True)
        ]
        rows = self.own_tables.lookup(templates.input_tables, forms)
        outputs = []
        for form, layer, each in zip(forms, self._options_of_inputs(), rows, strict=True):
            if form.weights is not None and form.row_splits is None:
                each = each * form.weights[:, tf.newaxis]
            outputs.append(form.outputs(tf.cast(each, layer.compute_dtype)))
        return templates.as_given(outputs)

    def _options_of_inputs(self):
        """The options of the table of each input."""
        return [self.templates.layer_of_input(i) for i in range(self.templates.num_inputs)]

    def compute_mask(self, inputs, previous_mask=None):
        inputs = self.templates.in_order(inputs, "inputs")
        masks = [
            layer.compute_mask(each)
            for layer, each in zip(self._options_of_inputs(), inputs, strict=True)
        ]
        return self.templates.as_given(masks)

    def compute_output_spec(self, inputs, weights=None):
        inputs = self.templates.in_order(inputs, "inputs")
        specs = [
            layer.compute_output_spec(each)
            for layer, each in zip(self._options_of_inputs(), inputs, strict=True)
        ]
        return self.templates.as_given(specs)

    def get_config(self):
        names = (
            "strategy",
            "column_slice_threshold",
            "row_slice_threshold",
            "data_parallel_threshold",
            "memory_budget",
            "num_slots",
            "hotness",
        )
        config = {name: getattr(self, name) for name in names}
        config["cost_model"] = None if self.cost_model is None else self.cost_model.get_config()
        return {**super().get_config(), **self.templates.get_config(), **config}


def _first_tier_bytes(storage):
    """Bytes of memory of a table with such a storage, or `None` if nobody knows."""
    return storage.storage_size[0] if storage is not None and storage.storage_size else None
