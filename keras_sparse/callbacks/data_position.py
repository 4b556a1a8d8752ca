import inspect

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
        self._epochs = _epoch_iterator(model)

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


def _epoch_iterator(model):
    """Returns Keras' iterator over epochs of the `fit` of a model that calls this, or `None`."""
    frame = inspect.currentframe()
    while frame is not None:
        # The variables of other frames are not looked at, which would keep them for longer.
        if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model:
            found = frame.f_locals.get("epoch_iterator")
            if hasattr(found, "_enumerate_iterator"):
                return found
        frame = frame.f_back
    return None


def _goes_on(epochs):
    """Returns whether the next epoch goes on with the iterator of the one that is over."""
    if epochs.steps_per_epoch is None or epochs._current_iterator is None:
        return False
    return not epochs._num_batches or epochs._steps_seen < epochs._num_batches


def _pass_over(iterator, num_batches, progress):
    for _ in range(num_batches):
        iterator.get_next_as_optional()  # the end of the data is for the step that comes to it
        progress.add(1)
