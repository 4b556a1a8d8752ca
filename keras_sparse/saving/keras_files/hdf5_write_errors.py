import contextlib
import errno
import fcntl
import io
import os
import signal
import sys
import threading
from typing import Any

import h5py

from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.file_context import in_file_context

# Ctrl-C while files are written: it waits for a moment at which they can be left.
# The handler that Ctrl-C would have had and the signals that wait for it, while it is deferred.
_deferred: tuple[Any, list] | None = None


@contextlib.contextmanager
def deferred_interrupts():
    """While this is entered, Ctrl-C comes at its end, or where `let_interrupt` is called.

    In the middle of a call of HDF5 it would be lost there, or break the file that is open.
    """
    global _deferred
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if _deferred is not None or not is_main or not callable(handler):
        yield
        return
    waiting: list = []
    signal.signal(signal.SIGINT, lambda *arguments: waiting.append(arguments))
    _deferred = handler, waiting
    try:
        yield
    finally:
        _deferred = None
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[-1])


def let_interrupt():
    """Does what Ctrl-C does, if it has come since `deferred_interrupts` was entered."""
    if _deferred is None or threading.current_thread() is not threading.main_thread():
        return
    handler, waiting = _deferred
    if waiting:
        arguments = waiting[-1]
        waiting.clear()
        handler(*arguments)


@contextlib.contextmanager
def hdf5_write_errors():
    """While this is entered, files of `new_hdf5_file` may be written to a disk that is full.

    HDF5 ends the process where it closes a file that it could not write. So it never hears of a
    write that fails, nor of Ctrl-C in the middle of one: the first error is kept, and raised by
    `check_written` and at the end; Ctrl-C waits for them.
    """
    disks: list[_Disk] = []
    try:
        with in_file_context(disks=disks), deferred_interrupts():
            try:
                yield
            finally:
                for disk in disks:
                    disk.end()
    finally:
        if not isinstance(sys.exception(), (KeyboardInterrupt, SystemExit)):
            _check(disks)


def new_hdf5_file(path):
    """Returns an empty `h5py.File` to write to, of those that `hdf5_write_errors` closes."""
    disk = _Disk(path)
    file_context().disks.append(disk)
    disk.hdf5 = h5py.File(disk, "w")
    return disk.hdf5


def check_written():
    """Raises what has kept a write from being made since `hdf5_write_errors` was entered, if it is.

    And Ctrl-C, if it has come since then.
    """
    let_interrupt()
    _check(file_context().disks or ())


class _Disk(io.FileIO):
    """A file whose writes are as if they had succeeded once one has failed."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self.error: BaseException | None = None
        self.hdf5: h5py.File | None = None  # which writes to it
        super().__init__(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+")
        try:
            # As HDF5 itself: readers of the file have it locked, and must not lose it.
            fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            super().close()
            raise BlockingIOError(
                errno.EWOULDBLOCK, "A file must not be open elsewhere to be written", self.path
            ) from None
        except OSError:
            pass  # a file system without locks
        super().truncate(0)

    def __repr__(self):
        # HDF5 calls the file so, and takes ASCII alone.
        return self.path.encode("ascii", "backslashreplace").decode()

    def end(self):
        """Closes the file, and keeps the error if it cannot."""
        if self.hdf5:
            self._try(self.hdf5.close)  # Keras leaves it open when it fails
        self._try(super().close)

    def write(self, data):
        left = memoryview(data)
        while left and self.error is None:
            left = left[self._try(super().write, left) :]
        return len(data)

    def truncate(self, size=None):
        return self._try(super().truncate, size)

    def _try(self, function, *arguments):
        try:
            return function(*arguments)
        except OSError as error:
            self.error = self.error or OSError(error.errno, error.strerror, self.path)
        except BaseException as error:
            self.error = self.error or error
        return 0


def _check(disks):
    for disk in disks:
        if disk.error is not None:
            raise disk.error
