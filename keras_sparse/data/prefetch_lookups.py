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
# What "auto" goes up to, and what may be given, as in ops/core/staging.
_MOST_CHOSEN = 8
_MOST_GIVEN = 64


def prefetch_lookups(
    dataset, model, num_threads="auto", capacity="auto", mode="exact", select=None
):
    """Lets the rows of coming batches be on their way while a step computes.

    The batches pass as they are. As each one does, its lookups are given to a stage, whose threads
    make them ready beside the training; the layer's own lookup of the same ids then takes what is
    there. Where nothing is, or other ids come, it does what it does without, so that no order of
    batches, abandoned iterator or `evaluate` in between can change a result: that is counted in
    `stats()["prefetch"]` of the layers, nothing more.

    With `mode="exact"` the stage reads the records of lower tiers ahead, and a step finds them in
    memory; of tables that are spread over ranks it exchanges the ids, and a step the rows alone.
    It is bit for bit the training without it. Tables in the memory of one rank, or of its GPU
    alone, need nothing, and cost nothing. With `mode="stale"` it reads, pools and exchanges the
    rows too, so that a step waits for nothing; its rows may miss the updates of as many steps as
    there are batches ahead, `capacity + num_threads` at most: it is `staleness_max` in the
    statistics. Gradients go to the rows as they are. This is the last stage of a dataset: what
    reads ahead after it, as another `prefetch`, only makes rows wait.

    All ranks must call it alike, and functions that look spread tables up must be traced after it;
    those of `fit`, `evaluate` and `predict` are.

    Args:
        dataset: `tf.data.Dataset` of batches, as `fit` takes it.
        model: Built `keras.Model` that is trained or evaluated on it. Of a functional or sequential
            model the layers and what feeds them are found.
        num_threads: Integer. How many batches are worked on at once, by threads of the stage's own;
            what ranks exchange is exchanged for one at a time. Defaults to `"auto"`: from 1 upward
            until steps need not wait.
        capacity: Integer from `num_threads` to 64. How many batches are ready or in work at most.
            Defaults to `"auto"`, likewise.
        mode: `"exact"` or `"stale"`. Defaults to `"exact"`.
        select: Function of the components of a batch, `x, y` and `sample_weight` if there is one,
            which gives a dict of inputs by the layers, or their names, that look them up. A layer
            with weights is called in it instead: `lambda x, y: model.bags(x["ids"], x["weights"])`;
            it may do both. Defaults to `None`: found in a functional model.

    Returns:
        `tf.data.Dataset` of the same elements. The stage ends with it and its iterators.

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
        # What layers assign, as the state of random numbers, they assign in the step alone.
        with native.collect_lookups() as lookups, keras.StatelessScope():
            call_layers(lookups, *(batch if is_tuple else (batch,)))
        if not lookups:
            raise ValueError(
                "`select` must give inputs by layers, or call layers, that look ids up. Received: "
                "a function that led to no lookup"
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

    # The stage sees as many batches as it may have, and the one that is on its way.
    num_ahead = capacity or max(num_threads, _MOST_CHOSEN)
    batches = dataset.enumerate().map(stage_batch).prefetch(num_ahead)
    if exchange_stages:
        # What was traced before does not look for lookups that are ready.
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
            # A model that it called may give its outputs by names.
            if not has_called or has_tables(_named(layer, layers)):
                _layer_of(layer, layers)(inputs)

    return call_layers


def _check_takes(select, components):
    try:
        signature = inspect.signature(select)
    except ValueError:  # of what is not written in Python
        return
    try:
        signature.bind(*components)
    except TypeError as error:
        raise TypeError(
            "`select` must take what a batch of this dataset has, one argument each. Received: a "
            f"function with arguments {signature} for {len(components)}: {error}"
        ) from None


def _named(layer, layers):
    return layer if isinstance(layer, keras.layers.Layer) else layers.get(layer)


def _layer_of(layer, layers):
    found = _named(layer, layers)
    if found is None or not has_tables(found):
        names = [name for name, each in layers.items() if has_tables(each)]
        raise ValueError(
            "`select` must give inputs by layers with tables of keras_sparse, or their names, of "
            "a model that is built: call it on a batch first. The model has "
            f"{names}. Received: {layer!r}"
        )
    return found
