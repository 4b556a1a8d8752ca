"""Calls that all ranks make. With one rank each of these returns what it was given.

While one of them waits for other ranks, its name is in the book that the `Watch` of the process
reads. So a name says whose call it is.

Every rank must call the same ones under the same names. Inside of a `tf.function` Horovod knows
them by these, and their order does not matter. Outside it knows no names: there ranks must call
them in the same order too, or what a rank sends in one call arrives in another call.
"""

import contextlib
import functools

import tensorflow as tf
from tensorflow.python.framework import kernels

from keras_sparse import native
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import horovod
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.watch import keep_watch
from keras_sparse.native import library


def alltoall(values, splits, name, on_gpu=False):
    """Sends a part of a tensor to each rank.

    Args:
        values: Tensor of shape `(n,)`: what goes to rank 0, then to rank 1, and so on.
        splits: int32 tensor of shape `(size,)`: how much of it goes to each.
        name: String, different for each exchange that may be under way at a time.
        on_gpu: Boolean. Whether the values, of a floating dtype, are made and used on a GPU, on all
            ranks: then a Horovod with NCCL sends them from there; another one sends them from
            memory. Defaults to `False`.

    Returns:
        `(received, received_splits)`: the same of what came, from rank 0, then from rank 1, and so
        on.
    """
    if size() == 1:
        return tf.identity(values), tf.identity(splits)
    splits = _not_constant(splits)
    if not on_gpu or not sends_from_gpus():
        return tuple(_wait_in(horovod().alltoall, [values, splits], name))

    def alltoall_of_values(values, **options):
        received = horovod().alltoall(values, splits, **options)
        received_splits.append(received[1])
        return received[0]

    received_splits: list[tf.Tensor] = []
    with tf.device(native.table_device(True)):
        received = _wait_in(alltoall_of_values, [values], name)
    return received, *received_splits


@functools.cache
def sends_from_gpus():
    """Returns whether Horovod takes what goes to each rank from a GPU: if it is built with NCCL."""
    found = kernels.get_registered_kernels_for_op("HorovodAlltoall")
    return any(kernel.device_type == "GPU" for kernel in found.kernel)


def sum_of(tensors, name):
    """Returns the sums over all ranks of each tensor of a list of one dtype, in one exchange."""
    if size() == 1 or not tensors:
        return list(tensors)
    return _allreduce(tensors, horovod().Sum, name)


def average_of(tensors, name):
    """Returns the averages over all ranks of each tensor of a list, as `sum_of` the sums."""
    if size() == 1 or not tensors:
        return list(tensors)
    return _allreduce(tensors, horovod().Average, name)


def _allreduce(tensors, op, name):
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    shapes = [each.shape if each.shape.is_fully_defined() else tf.shape(each) for each in tensors]
    sizes = [tf.size(tensor) for tensor in tensors]
    smallest = min(range(len(tensors)), key=lambda i: tensors[i].shape.num_elements() or 2**62)
    tensors[smallest] = _not_constant(tensors[smallest])
    # As one tensor: of several, Horovod decides at each step how they follow one another, by which
    # of them it still has in its cache, and the place of a number decides in which order the ranks'
    # are added up. With three ranks and more the same step could give other last bits.
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    flat = _wait_in(horovod().allreduce, [flat], name, op=op)
    parts = tf.split(flat, sizes)
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


def _not_constant(tensor):
    """Returns the tensor plus a zero that is not known before a `tf.function` has its data.

    TensorFlow would do what is computed from constants alone once, when it prepares a function, and
    not at each step, where the other ranks wait for it. And what needs no data could begin in a
    step that finds its dataset at an end, is then cut off, and waits for other ranks' for good.
    """
    if tf.executing_eagerly():
        return tensor
    # A random number, as TensorFlow leaves random numbers out of the order of a function's stateful
    # ops. With another stateful op this exchange would wait for those before it, for which a rank
    # with another order may not have sent anything yet.
    with tf.device("CPU"), tf.control_dependencies(_data_of(tf.compat.v1.get_default_graph())):
        zero = tf.raw_ops.RandomUniformInt(
            shape=tf.zeros((0,), tf.int32), minval=0, maxval=1, seed=1, seed2=1
        )
    return tensor + tf.cast(zero, tensor.dtype)


def _data_of(graph):
    """Returns what a graph is given, and the ops that read a dataset in it."""
    readers = [op for op in graph.get_operations() if op.type == "IteratorGetNext"]
    return [*getattr(graph, "inputs", ()), *readers]


def keep_alive(tensors):
    """Makes a `tf.function` compute tensors, read or not, where other ranks wait for this one.

    A function leaves out what is not read, exchanges too: to TensorFlow they have no effect. It
    does keep assertions, and what they would show.
    """
    if not tf.executing_eagerly():
        tf.raw_ops.Assert(condition=True, data=tensors)


def gather(values, name):
    """Returns the tensors of all ranks, one behind the other along the first axis.

    Args:
        values: Tensor of at least one axis; ranks may differ in the first one.
        name: As in `alltoall`.
    """
    if size() == 1:
        return tf.identity(values)
    return _wait_in(horovod().allgather, [_not_constant(values)], name)


def broadcast(value, root_rank, name):
    """Returns the tensor of one rank, on all ranks. They must be of one shape."""
    if size() == 1:
        return tf.identity(value)
    return _wait_in(horovod().broadcast, [value], name, root_rank=root_rank)


def broadcast_object(value, root_rank, name):
    """Returns the Python object of one rank, on all ranks. At once, also where a `tf.function` is
    traced.
    """
    if size() == 1:
        return value
    with _waiting(name):
        (received,) = _agree(
            [horovod().broadcast_object((name, value), root_rank, name=name)], name
        )
    return received


def gather_objects(value, name):
    """Returns a list of the Python objects of all ranks. At once, also where a `tf.function` is
    traced.
    """
    if size() == 1:
        return [value]
    with _waiting(name):
        return _agree(horovod().allgather_object((name, value), name=name), name)


def _wait_in(exchange, tensors, name, **options):
    """Returns what a function of Horovod makes of tensors: one, or several.

    Its name is in the book from when the tensors are there until what it returns is, or its error.
    """
    sent = _begin_wait(tensors, name)
    try:
        received = exchange(*sent, name=name, ignore_name_scope=True, **options)
    except BaseException:
        _end_wait(sent, name)
        raise
    ended = _end_wait(tf.nest.flatten(received), name)
    return tf.nest.pack_sequence_as(received, ended)


def _begin_wait(tensors, name):
    keep_watch()
    return library.lib.keras_sparse_begin_wait(tensors=tensors, call=name)


def _end_wait(tensors, name):
    return library.lib.keras_sparse_end_wait(tensors=tensors, call=name)


@contextlib.contextmanager
def _waiting(name):
    with tf.init_scope():
        nothing = _begin_wait([tf.zeros(0)], name)
        try:
            yield
        finally:
            _end_wait(nothing, name)


def _agree(named_values, name):
    """Returns the values of ranks, whose calls must be the same as this one."""
    names = sorted({theirs for theirs, _ in named_values} | {name})
    if len(names) > 1:
        raise RuntimeError(
            f"{error_prefix()}All ranks must make the same calls in the same order, such as `fit`, "
            "`evaluate`, what saves and what averages, with the same callbacks. Received: "
            f"'{name}' here, and of all ranks {names}"
        )
    return [value for _, value in named_values]
