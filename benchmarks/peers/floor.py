"""The floor: plain C++ with software prefetch (../floor), compiled here and called by ctypes."""

import ctypes
import functools
import pathlib
import subprocess
import tempfile

import numpy as np

from benchmarks.workloads import NUM_BATCHES

RULES = {"sgd": 0, "adagrad": 1, "lazy_adam": 2, "adam": 3}
SLOTS = {"adagrad": 1, "lazy_adam": 2, "adam": 2}
FOLDER = pathlib.Path(__file__).parent.parent / "floor"
SOURCES = [FOLDER / "floor.cc", FOLDER / "bare_memory.cc"]
FLAGS = [
    *("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=c++17"),
    "-fno-gnu-unique",  # two of these libraries in a process have memory of their own
]


@functools.cache
def shared_library():
    """The floor's library, compiled once a process."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "floor.so"
        command = ["g++", *FLAGS, "-fopenmp", "-shared", "-fPIC", "-o", target, *SOURCES]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(target))
    loaded.FloorCreate.restype = ctypes.c_void_p
    loaded.FloorMap.restype = ctypes.c_void_p
    loaded.FloorReadInOrder.restype = ctypes.c_float
    loaded.FloorReadAtRandom.restype = ctypes.c_float
    return loaded


def leave_caches(num_bytes):
    """Returns whether outputs of this number of bytes are written past the caches.

    As `ops/core/operations/lookup.cc` has it.

    More than half a third-level cache, or than 32 MiB.
    """
    shifts = {"K": 10, "M": 20}
    try:
        text = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        third_level = int(text[:-1]) << shifts[text[-1]]
    except (OSError, ValueError, KeyError):
        third_level = 64 << 20
    return num_bytes > min(third_level // 2, 32 << 20)


def pointers(arrays):
    """The addresses of arrays as a C array; `None` is a null pointer."""
    if arrays is None:
        return None
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def aligned(shape):
    """Zeros that start at a page: outputs are written in whole vectors."""
    num_bytes = int(np.prod(shape)) * 4
    raw = np.zeros(num_bytes + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + num_bytes].view(np.float32).reshape(shape)


class Floor:
    """Tables of a workload, and one call for each half of a step.

    Args:
        workload: `Workload`.
        column: String: what is measured.
        huge: Boolean. Whether tables are on huge pages.
        are_joined: Boolean. Whether the rows of all tables lie side by side in one output. Defaults
            to `False`.
    """

    def __init__(self, workload, column, huge, are_joined=False):
        self.lib = shared_library()
        self.workload = workload
        self.rule = column
        self.catches_up = column == "adam"
        record_floats = workload.output_dim * (1 + SLOTS.get(column, 0)) + self.catches_up
        self.handle = ctypes.c_void_p(
            self.lib.FloorCreate(
                ctypes.c_int64(workload.num_tables),
                ctypes.c_int64(workload.input_dim),
                workload.output_dim,
                record_floats,
                int(workload.dynamic),
                int(huge),
            )
        )
        if workload.dynamic:
            keys = np.unique(np.concatenate([batch[0] for batch in workload.ids]))
            np.random.default_rng(0).shuffle(keys)
            self._insert(keys)
        self.grads = workload.output_grads()
        if are_joined:
            self._join()
        else:
            shape = (workload.num_rows_out, workload.output_dim)
            self.outputs = [aligned(shape) for _ in range(workload.num_tables)]
        self.stream = int(leave_caches(sum(output.nbytes for output in self.outputs)))
        self.output_pointers = pointers(self.outputs)
        self.grad_pointers = pointers(self.grads)
        self.inputs = [self._inputs(i) for i in range(NUM_BATCHES)]
        self.num_steps = 0

    def _join(self):
        width = self.workload.num_tables * self.workload.output_dim
        shape = (self.workload.num_rows_out, width)
        # A table's rows lie on every page of the output; TensorFlow's op has huge ones, too.
        memory = self.lib.FloorMap(ctypes.c_int64(4 * shape[0] * width), 1)
        outputs = np.ctypeslib.as_array((ctypes.c_float * (shape[0] * width)).from_address(memory))
        outputs = outputs.reshape(shape)
        grads = aligned(shape)
        np.concatenate(self.grads, axis=1, out=grads)
        self.outputs, self.grads = (
            np.split(each, self.workload.num_tables, axis=1) for each in (outputs, grads)
        )
        self.lib.FloorSetOutputStride(self.handle, ctypes.c_int64(width))

    def __del__(self):
        self.lib.FloorDestroy(self.handle)

    def _insert(self, keys):
        address = keys.ctypes.data_as(ctypes.c_void_p)
        self.lib.FloorInsert(self.handle, ctypes.c_int64(0), address, ctypes.c_int64(len(keys)))

    def _inputs(self, i):
        ids = self.workload.ids[i]
        splits = self.workload.row_splits
        counts = np.array([len(row) for row in ids], np.int64)
        return (
            pointers(ids),
            pointers(splits[i] if splits else None),
            counts.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(self.workload.batch_size),
        )

    def forward(self, i):
        arguments = [*self.inputs[i], self.output_pointers, ctypes.c_int(self.stream)]
        if self.catches_up:
            steps = ctypes.c_int64(self.num_steps)
            self.lib.FloorLookupCaughtUp(self.handle, *arguments, steps)
        else:
            self.lib.FloorLookup(self.handle, *arguments)

    def step(self, i):
        self.forward(i)
        self.update(i)

    def update(self, i):
        self.num_steps += 1
        self.lib.FloorApply(
            self.handle,
            RULES[self.rule],
            *self.inputs[i],
            self.grad_pointers,
            ctypes.c_int64(self.num_steps),
        )


def build(workload, column, huge=False, are_joined=False):
    floor = Floor(workload, column, huge, are_joined)
    return floor.forward if column == "forward" else floor.step


# On huge pages, and there with one output and one gradient of all tables.
build_huge = functools.partial(build, huge=True)
build_joined = functools.partial(build, huge=True, are_joined=True)
