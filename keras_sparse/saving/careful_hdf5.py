import contextlib
import contextvars
import functools
import io
import os

import h5py


@contextlib.contextmanager
def careful_hdf5():
    """While this is entered, HDF5 files may be written to a disk that is full.

    HDF5 ends the process where it closes a file that it could not write. So it never hears of a
    write that fails: the first error is kept, and raised by `check_written` and at the end.
    """
    disks: list[_Disk] = []
    token = _opened.set(disks)
    try:
        yield
    finally:
        _opened.reset(token)
        for disk in disks:
            disk.close()
        _check(disks)


def check_written():
    """Raises OSError if a write has failed since `careful_hdf5` was entered, if it is."""
    _check(_opened.get() or ())


class _Disk(io.FileIO):
    """A file whose writes are as if they had succeeded once one has failed."""

    def __init__(self, path):
        super().__init__(path, "w+")
        self.error: OSError | None = None
        self.hdf5: h5py.File | None = None  # which writes to it

    def __repr__(self):
        return str(self.name)  # HDF5 calls the file so

    def close(self):
        if self.hdf5:
            self.hdf5.close()  # Keras leaves it open when it fails
        super().close()

    def write(self, data):
        left = memoryview(data)
        while left and self.error is None:
            left = left[self._try(super().write, left) :]
        return len(data)

    def truncate(self, size=None):
        return self._try(super().truncate, size)

    def _try(self, function, argument):
        try:
            return function(argument)
        except OSError as error:
            self.error = self.error or OSError(error.errno, error.strerror, str(self.name))
            return 0


# The files that were opened since `careful_hdf5` was entered, or None.
_opened: contextvars.ContextVar[list[_Disk] | None] = contextvars.ContextVar("opened", default=None)


def _check(disks):
    for disk in disks:
        if disk.error is not None:
            raise disk.error


_open = h5py.File.__init__


@functools.wraps(_open)
def _open_carefully(self, name, mode="r", *args, **kwargs):
    disks = _opened.get()
    if disks is None or mode != "w" or not isinstance(name, (str, os.PathLike)):
        _open(self, name, mode, *args, **kwargs)
        return
    disk = _Disk(name)
    disks.append(disk)
    _open(self, disk, mode, *args, **kwargs)
    disk.hdf5 = self


# Keras opens its files by their paths, so that there is nothing to hand over to it.
h5py.File.__init__ = _open_carefully
