"""`python -m keras_sparse launch`: runs a training over the loss of ranks and hosts."""

import importlib.util
import pathlib
import shlex
import sys

from keras_sparse.launcher.hosts import Host
from keras_sparse.launcher.hosts import hosts_of_script
from keras_sparse.launcher.hosts import num_slots
from keras_sparse.launcher.hosts import parse_hosts
from keras_sparse.launcher.launcher import Launcher


def run(options):
    """Runs the command.

    Args:
        options: `argparse.Namespace` of `keras_sparse.commands.parser`.

    Returns:
        The exit status.

    Raises:
        ImportError: Horovod is not installed.
        FileNotFoundError: There is no such script.
        ValueError: The numbers of ranks or the hosts do not fit together.
    """
    if importlib.util.find_spec("horovod") is None:
        raise ImportError(
            "Ranks need Horovod. Install it with `python -m keras_sparse install-horovod`"
        )
    hosts = parse_hosts(options.hosts) if options.hosts else None
    num_ranks = options.ranks or (hosts and num_slots(hosts))
    if num_ranks is None:
        raise ValueError("--ranks must be given, unless --hosts says how many there are")
    min_ranks = options.min_ranks or num_ranks
    max_ranks = options.max_ranks
    if not min_ranks <= num_ranks <= (max_ranks or num_ranks):
        raise ValueError(
            "--ranks must be between --min-ranks and --max-ranks. Received: "
            f"--ranks {num_ranks}, --min-ranks {min_ranks}"
            f"{f', --max-ranks {max_ranks}' if max_ranks else ''}"
        )
    if hosts and num_slots(hosts) < min_ranks:
        raise ValueError(
            f"--hosts must have room for --min-ranks. Received: {num_slots(hosts)} ranks on "
            f"{options.hosts}, --min-ranks {min_ranks}"
        )
    if hosts is None:
        hosts = [Host("localhost", max_ranks or num_ranks)]
    script = options.hosts_script
    launcher = Launcher(
        (lambda: hosts_of_script(script.absolute())) if script else (lambda: hosts),
        _command_of(options.command),
        num_ranks,
        min_ranks,
        max_ranks,
        options.max_restarts,
        options.log_dir,
        options.stall_seconds,
        options.grace,
        shlex.split(options.horovodrun),
    )
    return launcher.run()


def _command_of(words):
    """Returns the command of a rank: this Python, unless the words name a program."""
    words = words[1:] if words[0] == "--" else words
    if not words[0].endswith(".py"):
        return words
    if not pathlib.Path(words[0]).is_file():
        raise FileNotFoundError(f"The script must exist. Received: {words[0]}")
    return [sys.executable, *words]
