import inspect
import warnings

import tensorflow as tf
from keras.src.trainers import data_adapters  # how `fit` reads its data has no public name

from keras_sparse.utils.progress_bar import Progress

# What Keras' iterator has until its first epoch begins: where that is to be. All callbacks see it.
_AWAITED = "_keras_sparse_awaited_position"


class DataPosition:
    """Where a `fit` is in its data, and how another one gets there.

    Only Keras' iterator over epochs knows whether the next epoch begins the data anew or goes on in
    it. It is a local variable of `fit`, so this is made while `fit` calls `on_train_begin`. In a
    loop of one's own there is none, and `is_known` is false.

    A position is the number of batches that were taken of the data since it was last begun.

    Args:
        model: `keras.Model` whose `fit` it is.
    """

    def __init__(self, model):
        self._epochs, self._fit = _epochs_and_fit(model)

    @property
    def is_known(self):
        return self._epochs is not None

    def now(self, is_epoch_over):
        """Returns the position of the batch that comes next, `None` if it is not known."""
        epochs = self._epochs
        awaited = getattr(epochs, _AWAITED, None)
        if epochs is None or awaited is not None:
            return awaited
        if is_epoch_over and not _goes_on(epochs):
            return 0
        return epochs._steps_seen

    def is_running(self, frame):
        """Returns whether the `fit` still runs: in a frame, or in one that called it."""
        found = (_local(each, "epoch_iterator") for each in _frames_of_fit(frame))
        return self.is_known and any(each is self._epochs for each in found)

    def warn_of_random_order(self, epoch, batch, position):
        """Warns if `fit`'s data draws another order in a new process.

        Args:
            epoch, batch: Integers. The batch to train on next, and its epoch.
            position: Integer. That of the batch.
        """
        found = self._random_order(epoch, batch, position)
        if found is not None:
            warnings.warn(
                "Checkpoint must skip the batches that were trained on, and the data of this `fit` "
                "comes in another order than then: samples are trained twice or never. Give `fit` "
                "`shuffle=False`, or draw the order by the number of the epoch, as the how-to page "
                f"on checkpoints says. Received: {found}, with {position} batches to skip",
                stacklevel=5,
            )

    def _random_order(self, epoch, batch, position):
        adapter, steps = self._epochs.data_adapter, self._epochs.steps_per_epoch
        num_epochs = epoch - self._fit["initial_epoch"]
        # A seed gives the first pass over the data the same order in each process.
        is_first_pass = position - batch == num_epochs * steps if steps else not num_epochs
        shuffle = f"shuffle={self._fit['shuffle']!r} for "
        if isinstance(adapter, data_adapters.ArrayDataAdapter) and self._fit["shuffle"]:
            # With a seed Keras gives arrays one order, which is that of each epoch.
            return None if _has_global_seed() else f"{shuffle}arrays"
        if isinstance(adapter, data_adapters.PyDatasetAdapter) and self._fit["shuffle"]:
            is_drawn = adapter.num_batches is not None  # an endless one is read in its order
            is_same = is_first_pass and _has_global_seed()
            return f"{shuffle}a PyDataset" if is_drawn and not is_same else None
        return _random_stage(self._fit["x"], is_first_pass)

    def go_to(self, batch, position, takes_batches, verbose):
        """Lets the next epoch begin with a batch in its middle.

        Its first batches are neither trained on nor shown to callbacks, and count all the same.

        Args:
            batch: Integer. How many batches of the epoch were trained on.
            position: Integer. That of the first batch to train on.
            takes_batches: Boolean. Whether the data gives the batches before it, too.
            verbose: Boolean. Whether to show a bar where taking these takes long.
        """
        epochs = self._epochs
        setattr(epochs, _AWAITED, position)

        def rest_of_epoch():
            del epochs._enumerate_iterator  # of this instance: the class has that of whole epochs
            progress = Progress(position, "batch", is_shown=verbose)
            before_epoch = position - batch
            for first, last, iterator in epochs._enumerate_iterator():
                if getattr(epochs, _AWAITED) is not None:
                    setattr(epochs, _AWAITED, None)
                    epochs._steps_seen += before_epoch
                    if not takes_batches and epochs.steps_per_epoch and epochs._num_batches:
                        epochs._num_batches += position  # a length from where it begins
                    _pass_over(iterator, before_epoch if takes_batches else 0, progress)
                num_passed = min(max(0, batch - first), last + 1 - first)
                _pass_over(iterator, num_passed if takes_batches else 0, progress)
                if batch > last:
                    continue
                progress.close()
                epochs._steps_seen += num_passed  # with other `steps_per_execution` than before
                yield first, last, iterator

        epochs._enumerate_iterator = rest_of_epoch


def position_of(training):
    """Returns the position of the next batch in a training dict.

    Args:
        training: Dict of a checkpoint. Older versions saved only `batch`.
    """
    return training.get("position", training.get("batch", 0))


def _epochs_and_fit(model):
    """Returns Keras' iterator over epochs of the `fit` of a model that calls this, or `None`.

    Returns:
        `(iterator, arguments)`: of the `fit` the arguments that say in which order data comes.
    """
    for frame in _frames_of_fit(inspect.currentframe()):
        found = _local(frame, "epoch_iterator")
        if _local(frame, "self") is model and hasattr(found, "_enumerate_iterator"):
            return found, {name: _local(frame, name) for name in ("x", "shuffle", "initial_epoch")}
    return None, {}


def _frames_of_fit(frame):
    """Yields the frames of functions `fit` among a frame and those that called it."""
    while frame is not None:
        # The variables of other frames are not looked at, which would keep them for longer.
        if frame.f_code.co_name == "fit":
            yield frame
        frame = frame.f_back


def _local(frame, name):
    return frame.f_locals.get(name)


def _goes_on(epochs):
    """Returns whether the next epoch goes on with the iterator of the one that is over."""
    if epochs.steps_per_epoch is None or epochs._current_iterator is None:
        return False
    return not epochs._num_batches or epochs._steps_seen < epochs._num_batches


def _pass_over(iterator, num_batches, progress):
    for _ in range(num_batches):
        iterator.get_next_as_optional()  # the end of the data is for the step that comes to it
        progress.add(1)


def _has_global_seed():
    """Returns whether `keras.utils.set_random_seed` or `tf.random.set_seed` was called."""
    seeds = []
    # The seed has no public name but that of a graph, which takes the seed over.
    look = tf.function(lambda: seeds.append(tf.compat.v1.get_default_graph().seed))
    look.get_concrete_function()
    return seeds[0] is not None


def _random_stage(dataset, is_first_pass):
    """Returns the text of a `shuffle` among the stages of a `tf.data.Dataset`, or `None`."""
    if not isinstance(dataset, tf.data.Dataset):
        return None
    is_again = getattr(dataset, "_reshuffle_each_iteration", None)
    if is_again is not None:
        if not (dataset._seed or dataset._seed2):
            return "a dataset with `shuffle` without a seed"
        if is_again and not is_first_pass:
            return "a dataset with `shuffle` that draws an order each epoch"
    found = (_random_stage(each, is_first_pass) for each in dataset._inputs())
    return next(filter(None, found), None)
