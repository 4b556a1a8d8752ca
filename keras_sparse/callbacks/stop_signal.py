import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import check_agreement
from keras_sparse.launcher.reports import report
from keras_sparse.launcher.reports import TRY_AGAIN
from keras_sparse.utils import checks

# Signals by which people, launchers and batch systems end a process.
SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGXCPU")

# Seconds between two agreements of ranks.
_SECONDS = 1.0

# Steps between two agreements: if steps that took 10 ms take 1 s from then on, the next agreement
# is about a minute away at most. An agreement takes 3 to 5 ms, less than 1 % of 64 steps of 10 ms.
_MOST_STEPS = 64


class StopSignal:
    """Decides with the other ranks when a `fit` stops because of a signal.

    Args:
        names: Names of signals, a string or a list of strings, or `None`.

    Attributes:
        agreed: Name of the signal that ends this `fit`, the same on all ranks, or `None`.

    Raises:
        ValueError: A name is not in `SIGNALS`.
    """

    def __init__(self, names):
        names = () if names is None else names if isinstance(names, (list, tuple)) else (names,)
        self._names = [checks.one_of(name, SIGNALS, "on_signal") for name in names]
        self._handler: Any = None  # a `_Handler` while a `fit` runs, if there are names
        self.agreed: Any = None
        self._restart()

    def begin(self, position):
        """Installs the handlers. Called by `fit`, on all ranks.

        Args:
            position: `DataPosition`. Signals end its `fit`.

        Raises:
            RuntimeError: This is not the main thread, or not called by Keras' `fit`.
            ValueError: Ranks have other signals.
        """
        rule = "`on_signal` of `Checkpoint` must be the same on all ranks"
        check_agreement([(str(self._names), "")], rule, "on_signal")
        self._remove_handler()  # of a `fit` that raised an error
        if not self._names:
            return
        thread = threading.current_thread()
        if thread is not threading.main_thread():
            raise RuntimeError(
                "`on_signal` needs `fit` in the main thread, where Python handles signals. Call "
                f"`fit` there, or pass `on_signal=None`. Received: on_signal={self._names} in "
                f"thread '{thread.name}'"
            )
        if not position.is_known:
            raise RuntimeError(
                "`on_signal` needs Keras' own `fit`. In a loop of your own, handle the signal and "
                f"call `saving.save_checkpoint`. Received: on_signal={self._names} in another loop"
            )
        self._handler = _Handler(self._names, position)
        self._restart()

    def begin_phase(self):
        """Lets ranks agree at the next step, because the steps that follow take another time.

        Called when an evaluation begins or ends, in `fit` or outside, on all ranks.
        """
        if self._handler is not None and not self._handler.is_awaited(sys._getframe()):
            self._remove_handler()
        self._restart()

    def _restart(self):
        self._every = self._remaining = 1  # steps
        self._agreed_at: Any = None

    def after_step(self):
        """Returns the name of the signal that ends the training after this step, or `None`.

        All ranks call it after each step, and all get the same. They agree about once a second, and
        after 64 steps at the latest, so a signal that one rank alone received ends the training
        some steps later.
        """
        if self._handler is None:
            return None
        if size() == 1:
            self.agreed = self._handler.received
            return self.agreed
        self._remaining -= 1
        return None if self._remaining else self._agree()

    def after_training(self):
        """Returns the name of the signal that came before the training ended, or `None`.

        All ranks call it. Removes the handlers if it returns `None`.
        """
        if self._handler is None:
            return None
        name = self._agree()
        if name is None:
            received = self._remove_handler()
            if received is not None:  # since the agreement, on this rank alone
                signal.raise_signal(signal.Signals[received])
        return name

    def _agree(self):
        every = 1
        if self._agreed_at is not None:
            seconds = max(time.monotonic() - self._agreed_at, 1e-9)
            every = max(1, min(_MOST_STEPS, int(self._every * _SECONDS / seconds)))
        of_ranks = gather_objects((self._handler.received, every), "stop_signal")
        self._every = self._remaining = of_ranks[0][1]  # by the clock of one rank
        self._agreed_at = time.monotonic()
        self.agreed = next((name for name, _ in of_ranks if name is not None), None)
        return self.agreed

    def exit(self, step, name, saved, verbose):
        """Ends the process. Called when the state is saved.

        Args:
            step: Integer. The optimizer's steps.
            name: String. The signal.
            saved: Path of the checkpoint.
            verbose: Boolean. Whether to print why the process ends.

        Raises:
            SystemExit: Always, with the status `TRY_AGAIN`.
        """
        if verbose and rank() == 0:
            _say(f"Stopping after {name}: saved {saved}, run again to resume")
        is_ours = self._handler.received is not None  # or another rank's
        report("stopped", step=step, signal=name, received=is_ours)
        # A launcher that sees one rank end sends signals to the others, which are about to end.
        self._handler.is_ending = True
        # Python removes its handlers after that, and leaves `SIG_IGN`. Processes that the program
        # still starts would have inherited it.
        atexit.register(self._handler.ignore)
        raise SystemExit(TRY_AGAIN)

    def _remove_handler(self):
        """Returns the name of the signal that the handler has received, or `None`."""
        handler, self._handler, self.agreed = self._handler, None, None
        if handler is not None:
            handler.remove()
            return handler.received


class _Handler:
    """Notes signals while a `fit` runs.

    A `fit` that raises an error leaves its handler behind, which then passes a signal on to the
    handler before it. A forked process, such as a worker that reads data, does so too. Once the
    process ends because of a signal, the handler ignores all that follow: also while Python waits
    for threads, after the last frame of the program.

    Args:
        names: Names of signals.
        position: `DataPosition` of the `fit`. The handler keeps no reference to it.
    """

    def __init__(self, names, position):
        self.received = None  # the name of the first signal
        self.is_ending = False
        self._position = weakref.ref(position)
        self._process = os.getpid()
        self._is_removed = False
        numbers = [signal.Signals[name] for name in names]
        # All of them first: a signal may come as soon as a handler is installed.
        self._previous = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            signal.signal(number, self)

    def __call__(self, number, frame):
        if self.is_awaited(frame):
            self.received = self.received or signal.Signals(number).name
        elif os.getpid() != self._process or not self.is_ending:
            self.remove()
            before = self._before(number)
            if callable(before):
                before(number, frame)
            elif before != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)

    def is_awaited(self, frame):
        """Returns whether `frame` is in the `fit` of this process that acts on a signal."""
        position = self._position()
        return os.getpid() == self._process and position is not None and position.is_running(frame)

    def remove(self):
        """Puts the handlers back that were there before, unless others were installed since."""
        self._is_removed = True
        for number in self._installed():
            signal.signal(number, self._before(number))

    def ignore(self):
        """Lets the rest of the process ignore the signals."""
        for number in self._installed():
            signal.signal(number, signal.SIG_IGN)

    def _installed(self):
        """Returns the numbers of the signals for which no other handler was installed since."""
        of_numbers: Any = {number: signal.getsignal(number) for number in self._previous}
        return [number for number, handler in of_numbers.items() if handler is self]

    def _before(self, number):
        """Returns the handler of before, of which several may have been removed out of order."""
        previous = self._previous[number]
        if isinstance(previous, _Handler) and previous._is_removed:
            return previous._before(number)
        # Python knows no handler of C code: it is `None`.
        return signal.SIG_DFL if previous is None else previous


def _say(text):
    """Prints text, if anyone reads the output still."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        # Python writes what is left when it ends, and fails with another status.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
