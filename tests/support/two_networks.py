"""Two network namespaces on this machine, and a line between them.

Not every kernel has `veth`. TUN devices and a thread that carries their packets are nearly
everywhere, and a device that is down loses packets in silence, as a cable does.
"""

import contextlib
import fcntl
import os
import pathlib
import select
import shutil
import struct
import subprocess
import threading

TUN = "/dev/net/tun"
# <linux/if_tun.h>: make a device, of IP packets with nothing before them.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 32_768  # large packets take less time to carry
NAME = "line"


class NotPermittedError(RuntimeError):
    """This machine does not permit networks or hosts of its own."""


class TwoNetworks:
    """A context with two network namespaces, each of which reaches the other and nothing else.

    Namespaces have names with the number of this process. They and the line end with the context.
    Should this process be killed, the line ends with it, and the next context removes the names.

    Attributes:
        names: List of strings: of the namespaces, and of the device in each.
        addresses: List of strings, one a namespace.

    Raises:
        NotPermittedError: It says what is needed, and what went wrong.
    """

    def __init__(self):
        self.names = [f"{NAME}-{os.getpid()}-{i}" for i in range(2)]
        self.addresses = ["10.0.0.1", "10.0.0.2"]

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            try:
                self._open(stack)
            except (OSError, subprocess.SubprocessError) as error:
                raise NotPermittedError(
                    "Two networks need Linux, root, `ip` of iproute2, and a kernel with network "
                    f"namespaces and {TUN}. Received: {explain(error)}"
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
            run_ip("-n", name, "link", "set", name, "mtu", str(MTU), "up")
        reader, writer = os.pipe()
        line = threading.Thread(target=carry, args=(devices, reader))
        line.start()
        for end in (lambda: os.close(reader), line.join, lambda: os.close(writer)):
            stack.callback(end)


def open_tun(name):
    """Makes a TUN device and returns its descriptor, with which the device ends."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    try:
        request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(device, TUNSETIFF, request)
    except OSError:
        os.close(device)
        raise
    return device


def carry(devices, reader):
    """Carries the packets of two devices to each other, until the writer of a pipe is closed."""
    other = dict(zip(devices, reversed(devices), strict=True))
    while reader not in (ready := select.select([*devices, reader], [], [])[0]):
        for device in ready:
            with contextlib.suppress(OSError):  # a device is down
                os.write(other[device], os.read(device, MTU))


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
