"""The hosts that ranks can start on."""

import concurrent.futures
import dataclasses
import re
import shlex
import subprocess

SCRIPT_SECONDS = 60  # for a script that lists hosts
CONNECT_SECONDS = 5
ANSWER_SECONDS = 10  # for a connection and a short command

# As `horovodrun` reaches hosts; never asks for a password.
SSH = (
    *("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"),
    *("-o", f"ConnectTimeout={CONNECT_SECONDS}"),
)


class NoHostsError(Exception):
    """The script that lists hosts has failed."""


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine and the number of ranks that it has room for."""

    name: str
    slots: int

    def __str__(self):
        return f"{self.name}:{self.slots}"


def parse_hosts(text):
    """Returns a list of `Host` for text such as `"alpha:2,beta:2"`, or for one host a line.

    Raises:
        ValueError: An entry has another form, or a host occurs twice.
    """
    hosts = []
    for entry in filter(None, re.split(r"[,\s]+", text)):
        match = re.fullmatch(r"([\w.-]+):([1-9]\d*)", entry)
        if not match:
            raise ValueError(
                f"Hosts must be given as name:ranks, such as alpha:2,beta:2. Received: '{entry}'"
            )
        hosts.append(Host(match[1], int(match[2])))
    names = [host.name for host in hosts]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"Hosts must be given once each. Received: '{repeated[0]}' twice")
    return hosts


def hosts_of_script(path):
    """Returns the hosts that a program prints, one a line, as for Horovod's host discovery.

    Raises:
        NoHostsError: The program cannot run, fails, takes longer than a minute, or prints something
            else.
    """
    try:
        listed = subprocess.run(
            [path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=SCRIPT_SECONDS,
            check=True,
        )
        return parse_hosts(listed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise NoHostsError(f"the hosts script failed: {error}") from error


def is_local(name):
    """Returns whether `horovodrun` starts the ranks of a host without ssh."""
    from horovod.runner.util import network

    try:
        return network.resolve_host_address(name) in network.get_local_host_addresses()
    except ValueError:  # no name that a network can have
        return False


def run_on_hosts(commands):
    """Runs a short command on each of some hosts, at the same time.

    Args:
        commands: Dict of a list of words by the name of the host.

    Returns:
        Set of the names of hosts whose command ended with status 0 within ten seconds.
    """
    if not commands:
        return set()
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
        ended_well = pool.map(_run_on, commands, commands.values())
        return {name for name, is_well in zip(commands, ended_well, strict=True) if is_well}


def _run_on(name, command):
    words = list(map(str, command))
    if not is_local(name):
        words = [*SSH, name, shlex.join(words)]
    try:
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def answering(hosts):
    """Returns the hosts that answer, in their order."""
    names = run_on_hosts({host.name: ["true"] for host in hosts})
    return [host for host in hosts if host.name in names]


def take(hosts, num_ranks):
    """Returns the hosts for at most so many ranks, each with as many slots as are used of it."""
    taken: list[Host] = []
    for host in hosts:
        slots = min(host.slots, num_ranks - num_slots(taken))
        if slots:
            taken.append(Host(host.name, slots))
    return taken


def num_slots(hosts):
    """Returns the number of ranks that hosts have room for."""
    return sum(host.slots for host in hosts)


def host_of_ranks(hosts):
    """Returns the name of the host of each rank: Horovod fills the hosts in their order."""
    return [host.name for host in hosts for _ in range(host.slots)]


def text_of(hosts):
    """Returns hosts as `parse_hosts` reads them."""
    return ",".join(map(str, hosts))
