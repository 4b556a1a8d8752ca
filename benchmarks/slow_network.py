"""Two network namespaces on this machine, and a line of a given bandwidth and delay between them.

`tc` has a `netem` for that, which is not in every kernel. TUN devices and a process that carries
their packets are nearly everywhere, and the same on all of them.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time

TUN = "/dev/net/tun"
# <linux/if_tun.h>: make a device, of IP packets with nothing before them.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 32_768  # large packets cost `slow_link` less, and it lets connections take turns by packets
NAME = "slow"
PORT = 5000
NUM_SMALL, SMALL_BYTES = 50, 8
NUM_LARGE, LARGE_BYTES = 3, 8 << 20
# So that the line decides how long a message takes, and not TCP's care for other networks: windows
# for what fits on it, kept through pauses. Reno slows down for lost packets alone, of which there
# are none, and is the one that namespaces may always choose.
TCP = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_rmem": "4096 4194304 16777216",
    "tcp_wmem": "4096 4194304 16777216",
}


class NotPermittedError(RuntimeError):
    """This machine does not permit networks or hosts of its own."""


class SlowNetwork:
    """A context with two network namespaces, each of which reaches the other and nothing else.

    Between them is a line. Each way it carries `megabits`, both at a time, and a byte arrives half
    of `milliseconds` after it has left: an empty message and its answer take `milliseconds`, and a
    message of `n` bytes takes `n * 8 / (megabits * 1000)` ms and half of `milliseconds`. What the
    machine itself takes comes on top; `measure_network` measures what there is.

    Namespaces have names with the number of this process. They and the line end with the context.
    Should this process be killed, the line ends by itself, and the next context removes the names.

    Args:
        megabits: Float. Bandwidth each way, 10^6 bits a second, headers included.
        milliseconds: Float. Of the round trip.

    Attributes:
        names: List of strings: of the namespaces, and of the device in each.
        addresses: List of strings, one a namespace.

    Raises:
        NotPermittedError: It says what is needed, and what went wrong.

    Example:

    >>> with SlowNetwork(1000, 1) as network:
    ...     subprocess.run([*network.inside(0), "ping", "-c", "3", network.addresses[1]])
    """

    def __init__(self, megabits, milliseconds):
        self.megabits = megabits
        self.milliseconds = milliseconds
        self.names = [f"{NAME}-{os.getpid()}-{i}" for i in range(2)]
        self.addresses = ["10.0.0.1", "10.0.0.2"]
        self._line = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            try:
                self._open(stack)
            except (OSError, subprocess.SubprocessError) as error:
                raise NotPermittedError(
                    "A slow network needs Linux, root, `ip` of iproute2, g++, and a kernel with "
                    f"network namespaces and {TUN}. Received: {explain(error)}"
                ) from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def _open(self, stack):
        if shutil.which("ip") is None:
            raise FileNotFoundError("no program `ip`")
        remove_left_over()
        devices = []
        for name, address in zip(self.names, self.addresses, strict=True):
            devices.append(open_tun(name))
            stack.callback(os.close, devices[-1])
            run_ip("netns", "add", name)
            stack.callback(run_ip, "netns", "delete", name)
            run_ip("link", "set", name, "netns", name)
            run_ip("-n", name, "address", "add", f"{address}/24", "dev", name)
            run_ip("-n", name, "link", "set", "lo", "up")
            run_ip("-n", name, "link", "set", name, "mtu", str(MTU), "txqueuelen", "10000", "up")
            for setting, value in TCP.items():
                run_ip("netns", "exec", name, "sysctl", "-qw", f"net.ipv4.{setting}={value}")
        self._line = start_line(devices, self.megabits, self.milliseconds)
        stack.callback(self._line.communicate)  # it ends when its standard input does

    def inside(self, i):
        """The words that go before a command to run it in a namespace.

        There the machine is named after its address, as Horovod may listen at that of the name. The
        command ends with this process, also where this is killed.
        """
        name = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.addresses[i]]
        return ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.names[i], *name]

    def seconds_of_line(self):
        """The time that the line has taken of the machine's processors so far."""
        user, system = pathlib.Path(f"/proc/{self._line.pid}/stat").read_text().split()[13:15]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def reason_against():
    """Why this machine permits no such network, in words; `None` if it does."""
    try:
        with SlowNetwork(100, 20):
            return None
    except RuntimeError as error:
        return str(error)


def open_tun(name):
    """Makes a TUN device and returns its descriptor: it ends with the last copy of that."""
    device = os.open(TUN, os.O_RDWR)
    try:
        request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(device, TUNSETIFF, request)
    except OSError:
        os.close(device)
        raise
    return device


def start_line(devices, megabits, milliseconds):
    """Compiles and starts `slow_link.cc`; it ends when its standard input does."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "slow_link"
        source = pathlib.Path(__file__).with_name("slow_link.cc")
        compile_it = ["g++", "-O2", "-std=c++17", "-o", program, source]
        subprocess.run(compile_it, check=True, capture_output=True, text=True)
        arguments = map(str, (*devices, megabits, milliseconds))
        return subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, pass_fds=devices)


def remove_left_over():
    """Removes the namespaces of processes that are no more."""
    for line in run_ip("netns", "list").splitlines():
        name, process, *_ = f"{line.split()[0]}--".split("-")
        if name == NAME and process.isdigit() and not pathlib.Path("/proc", process).exists():
            run_ip("netns", "delete", line.split()[0])


def run_ip(*arguments):
    """Returns what `ip` prints."""
    return subprocess.run(
        ["ip", *arguments], check=True, capture_output=True, text=True, timeout=300
    ).stdout


def explain(error):
    """What went wrong, in words."""
    if isinstance(error, subprocess.CalledProcessError):
        return f"`{' '.join(map(str, error.cmd))}`: {error.stderr.strip()}"
    return str(error)


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
        small, large = bytes(SMALL_BYTES), bytes(LARGE_BYTES)
        round_trips = [answer(connection, small, is_first) for _ in range(NUM_SMALL)]
        seconds = []
        for _ in range(NUM_LARGE + 1):
            answer(connection, small, is_first)  # so that both begin together
            seconds.append(swap(connection, large))
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
        receive(connection, len(message))
    connection.sendall(message)
    if not is_first:
        receive(connection, len(message))
    return time.perf_counter() - start


def swap(connection, message):
    """Both send while they receive. Returns seconds."""
    start = time.perf_counter()
    sender = threading.Thread(target=connection.sendall, args=(message,))
    sender.start()
    receive(connection, len(message))
    sender.join()
    return time.perf_counter() - start


def receive(connection, num_bytes):
    while num_bytes:
        received = len(connection.recv(min(num_bytes, 1 << 20)))
        if not received:
            raise ConnectionError("The other process has closed the connection")
        num_bytes -= received
