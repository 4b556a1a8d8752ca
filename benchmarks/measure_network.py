"""Measures what a network between two processes does, by plain sockets."""

import socket
import statistics
import threading
import time

PORT = 5000
NUM_SMALL, SMALL_BYTES = 50, 8
NUM_LARGE, LARGE_BYTES = 3, 8 << 20


def measure_network(address, is_first):
    """Both processes call it: the first one listens at its address, the second connects to it.

    Args:
        address: String, that of the first process.
        is_first: Boolean.

    Returns:
        A dict of floats, medians: `"milliseconds"` of a small message and its answer, and
        `"megabits"` a second of large messages that both send at the same time, each way.
    """
    with connect(address, is_first) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        small, large, received = bytearray(SMALL_BYTES), bytes(LARGE_BYTES), bytearray(LARGE_BYTES)
        round_trips = [answer(connection, small, is_first) for _ in range(NUM_SMALL)]
        seconds = []
        for _ in range(NUM_LARGE + 1):
            answer(connection, small, is_first)  # so that both begin together
            seconds.append(swap(connection, large, received))
    return {
        "milliseconds": statistics.median(round_trips) * 1e3,
        "megabits": LARGE_BYTES * 8 / 1e6 / statistics.median(seconds[1:]),
    }


def connect(address, is_first):
    if is_first:
        with socket.create_server((address, PORT)) as server:
            server.settimeout(600)
            return server.accept()[0]
    give_up = time.monotonic() + 600
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=600)
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def answer(connection, message, is_first):
    """The second process sends a message and the first one answers. Returns seconds."""
    start = time.perf_counter()
    if is_first:
        receive(connection, message)
        connection.sendall(message)
    else:
        connection.sendall(message)
        receive(connection, message)
    return time.perf_counter() - start


def swap(connection, message, received):
    """Both send while they receive. Returns seconds."""
    start = time.perf_counter()
    sender = threading.Thread(target=connection.sendall, args=(message,))
    sender.start()
    receive(connection, received)
    sender.join()
    return time.perf_counter() - start


def receive(connection, message):
    rest = memoryview(message)
    while rest:
        num_bytes = connection.recv_into(rest)
        if not num_bytes:
            raise ConnectionError("The other process has closed the connection")
        rest = rest[num_bytes:]
