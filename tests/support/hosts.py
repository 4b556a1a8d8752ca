"""Two hosts on this machine, as `horovodrun` sees them: names, ssh servers, disks of their own.

A host is a network, process and mount namespace. A thread carries the packets between their TUN
devices: not every kernel has `veth`, and a TUN device that is down loses packets in silence, as a
cable does.
"""

import contextlib
import fcntl
import os
import pathlib
import select
import shlex
import shutil
import struct
import subprocess
import sys
import threading
import time

from benchmarks.process import HOROVODRUN

NAMES = "alpha", "beta"
DEVICE = "eth0"  # that of the line, on each host
LOCAL_DISK = "/mnt"  # another one on each host
TUN = "/dev/net/tun"
# <linux/if_tun.h>: make a device, of IP packets with nothing before them.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 32_768  # large packets take less time to carry
NAME = "line"

# Run in a host's namespaces, as their first process: all others end with it. The user's own keys
# and the machine's list of hosts are not touched: others lie over them, here alone.
_BOOT = f"""
set -e
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mkdir -p ~root/.ssh /run/sshd
mount --bind "$2/ssh" ~root/.ssh
mount -t tmpfs tmpfs {LOCAL_DISK}
# Horovod takes networks that have the same name on all hosts.
ip link set "$3" down
ip link set "$3" name {DEVICE} up
exec "$4" -D -e -f "$2/sshd_config"
"""

_SSHD_CONFIG = """
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/ssh/id_ed25519.pub
StrictModes no
UsePAM no
PasswordAuthentication no
AcceptEnv *
"""


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


class Hosts:
    """A context with two hosts, each of which runs an ssh server that lets this user in.

    They have all files of this machine but those under `LOCAL_DISK`, of which each has its own.
    All ends with the context, also where this process is killed.

    Args:
        folder: `pathlib.Path` of an empty folder.

    Raises:
        NotPermittedError: It says what is needed, and what went wrong.
        RuntimeError: A host has not started.
    """

    def __init__(self, folder):
        self.network = TwoNetworks()
        self._folder = folder
        self._servers = []

    def __enter__(self):
        if shutil.which("sshd") is None:
            raise NotPermittedError("Hosts need an ssh server: Debian has it in openssh-server.")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.network)
            self._write_files()
            for i in range(len(NAMES)):
                self._servers.append(self._boot(i))
                stack.callback(self.kill, i)
            for i in range(len(NAMES)):
                self._wait_for(i)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def run(self, *command, host=0, seconds=600):
        """Runs a command on a host, by ssh from the same one: its exit status and its output."""
        process = self.start(*command, host=host)
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, printed

    def start(self, *command, host=0):
        """Starts a command on a host; returns the process, whose output is a pipe."""
        ssh = [*self._inside(host), "ssh", "-o", "StrictHostKeyChecking=no", NAMES[host]]
        words = " ".join(shlex.quote(str(word)) for word in command)
        return subprocess.Popen(
            [*ssh, f"cd {shlex.quote(os.getcwd())} && {words}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def horovodrun(self, *command, hosts=NAMES):
        """The words that run Python with these arguments on a rank a host."""
        slots = ",".join(f"{name}:1" for name in hosts)
        return [HOROVODRUN, "--gloo", "-np", len(hosts), "-H", slots, sys.executable, *command]

    def cut_off(self, host):
        """From now on nothing comes from a host, and nothing reaches it."""
        run_ip("-n", self.network.names[host], "link", "set", DEVICE, "down")

    def bring_back(self, host):
        """Ends `cut_off`."""
        run_ip("-n", self.network.names[host], "link", "set", DEVICE, "up")

    def kill(self, host):
        """Ends all processes of a host at once."""
        self._servers[host].kill()
        self._servers[host].wait()

    def _write_files(self):
        ssh = self._folder / "ssh"
        ssh.mkdir()
        for key in (self._folder / "host_key", ssh / "id_ed25519"):
            make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key]
            subprocess.run(make_key, check=True)
        lines = [f"{a} {name}" for a, name in zip(self.network.addresses, NAMES, strict=True)]
        (self._folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        (self._folder / "sshd_config").write_text(_SSHD_CONFIG.format(folder=self._folder))

    def _boot(self, host):
        namespaces = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"]
        network = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec"]
        boot = ["--mount-proc", "sh", "-c", _BOOT, "boot", NAMES[host], self._folder]
        name = self.network.names[host]
        with (self._folder / f"{NAMES[host]}.log").open("w") as log:
            return subprocess.Popen(
                [*network, name, *namespaces, *boot, name, shutil.which("sshd")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _inside(self, host):
        """The words before a command to run it among the processes of a host."""
        server = self._servers[host].pid  # `unshare`, whose child is the first of them
        children = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text()
        return ["nsenter", "--all", "--target", children.split()[0]]

    def _wait_for(self, host):
        end = time.monotonic() + 60
        command = ["ip", "netns", "exec", self.network.names[host], "ss", "-tln"]
        while ":22 " not in subprocess.run(command, capture_output=True, text=True).stdout:
            if self._servers[host].poll() is not None or time.monotonic() > end:
                log = (self._folder / f"{NAMES[host]}.log").read_text()
                raise RuntimeError(f"The ssh server of a host has not started. Received: {log}")
            time.sleep(0.1)
