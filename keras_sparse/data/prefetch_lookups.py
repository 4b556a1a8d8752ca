import inspect

import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse.data.lookup_calls import has_tables
from keras_sparse.data.lookup_calls import LookupCalls
from keras_sparse.distribute.exchange.exchange import Exchange
from keras_sparse.distribute.exchange.prefetch_stage import PrefetchStage
from keras_sparse.utils import checks

MODES = ("exact", "stale")
# Limits of "auto" and of arguments, as in ops/core/staging.
_MOST_CHOSEN = 8
_MOST_GIVEN = 64


def prefetch_lookups(
    dataset, model, num_threads="auto", capacity="auto", mode="exact", select=None
):
    """Looks up the rows of coming batches while the current step computes.

    The dataset passes its batches on unchanged. A stage with its own threads prepares the lookups
    of each batch, and the layer's lookup of the same ids then uses the staged result. If nothing is
    staged for its ids, a step looks them up as usual and counts the lookup as missed in
    `stats()["prefetch"]` of the layer. So the order of batches, abandoned iterators and `evaluate`
    in between never change a result.

    `mode="exact"` reads the records of lower tiers into memory ahead of the step and, for tables
    sharded over ranks, exchanges the ids. Training gives the same bits as without prefetching.
    Tables in the memory or GPU of one rank need no staging and cost nothing.

    `mode="stale"` also looks up, pools and exchanges the rows. They may miss the updates of the
    last steps: at most `capacity + num_threads`, reported as `staleness_max`. Gradients always
    update the current rows.

    Let this be the last stage of the dataset: a later `prefetch` delays the batches. On several
    ranks, all ranks must call it with the same arguments. Trace your own functions that look up
    sharded tables after this call; `fit`, `evaluate` and `predict` do so.

    Args:
        dataset: `tf.data.Dataset` of batches, as `fit` takes it.
        model: Built `keras.Model` that trains on or evaluates the dataset.
        num_threads: Integer in [1, 64], or `"auto"`. Number of batches that are staged at the same
            time. Exchanges between ranks run one batch at a time. Defaults to `"auto"`: starts at 1
            and grows while steps wait.
        capacity: Integer from `num_threads` to 64, or `"auto"`. Largest number of batches that are
            staged or being staged. Defaults to `"auto"`: starts at 1 and grows while steps wait.
        mode: `"exact"` or `"stale"`. Defaults to `"exact"`.
        select: Function of the components of a batch, `x, y` and `sample_weight` if present. It
            returns a dict from layers, or their names, to the inputs that they look up; or it calls
            layers, as needed for weights: `lambda x, y: model.bags(x["ids"], x["weights"])`; or
            both. Defaults to `None`: a functional or sequential model, whose layers and their
            inputs are found.

    Returns:
        `tf.data.Dataset` with the same elements. The stage ends with the dataset and its iterators.

    Raises:
        TypeError: `dataset` is not a `tf.data.Dataset`, or `select` is not a function of the
            components of a batch.
        ValueError: An argument is out of its range, `num_threads` exceeds `capacity`, or `select`
            leads to no lookup.

    Example:
    >>> inputs = keras.Input((2,), dtype="int64")
    >>> rows = keras_sparse.layers.Embedding(None, 4, combiner="sum")(inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(rows))
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> batches = tf.data.Dataset.from_tensor_slices(([[1, 2], [2, 3]], [[1.0], [0.0]])).batch(1)
    >>> ahead = keras_sparse.data.prefetch_lookups(batches, model)
    >>> history = model.fit(ahead, shuffle=False, verbose=0)
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "`dataset` must be a `tf.data.Dataset` of batches. Received: dataset of type "
            f"{type(dataset).__name__}"
        )
    checks.one_of(mode, MODES, "mode")
    if select is not None and not callable(select):
        raise TypeError(
            "`select` must be a function of the components of a batch, like `lambda x, y: {layer: "
            f"x}}`. Received: select={select!r}"
        )
    num_threads = _chosen_or_given(num_threads, "num_threads")
    capacity = _chosen_or_given(capacity, "capacity")
    if capacity and num_threads > capacity:
        raise ValueError(
            "`num_threads` must be at most `capacity`, as each thread works on one of the staged "
            f"batches. Received: num_threads={num_threads}, capacity={capacity}"
        )
    call_layers = _found_calls(model) if select is None else _selected_calls(model, select)
    stages: dict[bool, tf.Tensor] = {}  # by whether they are for tables in GPU memory
    exchange_stages: dict[Exchange, PrefetchStage] = {}
    reads_rows = mode == "stale"
    is_tuple = type(dataset.element_spec) is tuple

    @tf.autograph.experimental.do_not_convert
    def stage_batch(number, batch):
        # Layers assign variables, such as the state of random numbers, only in the step.
        with native.collect_lookups() as lookups, keras.StatelessScope():
            call_layers(lookups, *(batch if is_tuple else (batch,)))
        if not lookups:
            raise ValueError(
                "`select` must return inputs by layers, or call layers, that look ids up. "
                "Received: a function that leads to no lookup"
            )
        here = [lookup for lookup in lookups if "exchange" not in lookup]
        for on_gpu, of_memory in native.lookups_by_memory(here).items():
            if on_gpu not in stages:
                stages[on_gpu] = native.create_lookup_stage(num_threads, capacity, on_gpu)
            native.stage_lookups(stages[on_gpu], number, of_memory, reads_rows)
        for exchange, inputs in _by_exchange(lookups).items():
            if exchange not in exchange_stages:
                exchange_stages[exchange] = PrefetchStage(exchange, capacity, reads_rows)
            exchange_stages[exchange].stage(number, inputs)
        return batch

    # The stage sees as many batches as it may hold, and one more.
    num_ahead = capacity or max(num_threads, _MOST_CHOSEN)
    batches = dataset.enumerate().map(stage_batch).prefetch(num_ahead)
    if exchange_stages:
        # Functions that were traced before do not use staged lookups.
        model.train_function = model.test_function = model.predict_function = None
    return batches


def _chosen_or_given(value, name):
    """The value, or 0 for `"auto"`."""
    if isinstance(value, str) and value == "auto":
        return 0
    if checks.positive(value, name) > _MOST_GIVEN:
        raise ValueError(f"`{name}` must be in [1, {_MOST_GIVEN}]. Received: {name}={value}")
    return value


def _by_exchange(lookups):
    """Returns a dict of lists: the inputs of the lookups over ranks by their `Exchange`."""
    inputs: dict = {}
    for lookup in lookups:
        if "exchange" in lookup:
            inputs.setdefault(lookup["exchange"], []).append(lookup["inputs"])
    return inputs


def _found_calls(model):
    find = LookupCalls(model)

    def call_layers(lookups, x, *others):
        find(x)

    return call_layers


def _selected_calls(model, select):
    layers = {layer.name: layer for layer in model._flatten_layers(include_self=False)}

    def call_layers(lookups, *components):
        _check_takes(select, components)
        selected = select(*components)
        has_called = bool(lookups)
        for layer, inputs in selected.items() if isinstance(selected, dict) else ():
            # A model that `select` called may return its outputs by names.
            if not has_called or has_tables(_named(layer, layers)):
                _layer_of(layer, layers)(inputs)

    return call_layers


def _check_takes(select, components):
    try:
        signature = inspect.signature(select)
    except ValueError:  # a function that is not written in Python
        return
    try:
        signature.bind(*components)
    except TypeError as error:
        raise TypeError(
            "`select` must take the components of a batch of this dataset, one argument each. "
            f"Received: a function with arguments {signature} for {len(components)} components: "
            f"{error}"
        ) from None


def _named(layer, layers):
    return layer if isinstance(layer, keras.layers.Layer) else layers.get(layer)


def _layer_of(layer, layers):
    found = _named(layer, layers)
    if found is None or not has_tables(found):
        names = [name for name, each in layers.items() if has_tables(each)]
        raise ValueError(
            "`select` must return inputs by layers with tables of keras_sparse, or by the names "
            "of such layers, and the model must be built: call it on a batch first. The model "
            f"has {names}. Received: {layer!r}"
        )
    return found
