"""Runs functions and workers in processes of their own, and reads what memory these hold."""

import concurrent.futures
import contextlib
import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
REPOSITORY = pathlib.Path(__file__).parent.parent
HOROVODRUN = pathlib.Path(sysconfig.get_path("scripts"), "horovodrun")
MOST_SECONDS = 1800  # of an order


def environment_of(threads):
    """Returns the environment of a process in which each library computes on `threads` threads."""
    return {
        **os.environ,
        **ENVIRONMENT,
        "OMP_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.getenv("PYTHONPATH")])),
    }


def reason_against_ranks():
    """Why there can be no ranks here, in words; `None` if there can."""
    if importlib.util.find_spec("horovod") is None:
        return "there is no Horovod; `python -m keras_sparse install-horovod` installs it"
    return None


def is_verbose():
    """Whether what libraries print is shown."""
    return bool(os.getenv("BENCHMARKS_VERBOSE"))


def in_fresh_process(function, *arguments):
    """Calls a module's function in a process that has run nothing before."""
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, silence) as pool:
        return pool.submit(function, *arguments).result()


def silence():
    """Drops what libraries print; an exception still reaches the caller."""
    if not is_verbose():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class Workers:
    """A context with processes of `benchmarks.worker`, which do what they are told.

    Args:
        role: String, `"module:class"`. Methods of the class are the orders.
        threads: Integer, of each process.
        commands: List of lists of words, each of which starts the words that follow it. Defaults
            to one process.
        num_workers: Integer. How many processes the commands start. Defaults to 1. A process has
            the number that Horovod's variable `HOROVOD_RANK` says, or 0.

    Attributes:
        pids: List of integers, of the processes by their numbers.
    """

    def __init__(self, role, threads, commands=((),), num_workers=1):
        silent = None if is_verbose() else subprocess.DEVNULL
        with (
            tempfile.TemporaryDirectory() as folder,
            multiprocessing.connection.Listener(str(pathlib.Path(folder, "socket"))) as listener,
        ):
            words = [sys.executable, "-m", "benchmarks.worker", listener.address, role]
            self._processes = [
                subprocess.Popen(
                    [*command, *words],
                    env=environment_of(threads),
                    stdin=subprocess.DEVNULL,
                    stdout=silent,
                    stderr=silent,
                    cwd=REPOSITORY,
                )
                for command in commands
            ]
            listener._listener._socket.settimeout(1)
            connections = [self._accept(listener) for _ in range(num_workers)]
        numbered = {number: (pid, each) for each in connections for number, pid in [each.recv()]}
        self.pids, self._connections = zip(*(numbered[i] for i in sorted(numbered)), strict=True)

    def _accept(self, listener):
        """Waits for a process to connect, as long as none has ended."""
        while all(process.poll() is None for process in self._processes):
            with contextlib.suppress(TimeoutError):
                return listener.accept()
        for process in self._processes:
            process.terminate()
        raise RuntimeError("A worker ended at its start; BENCHMARKS_VERBOSE=1 shows why.")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Closes connections: a worker ends then, which may have to wait for another one."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def tell(self, order, *arguments):
        """Returns what the workers answer.

        Raises:
            RuntimeError: The first worker to fail, and its error.
        """
        waiting = {connection: number for number, connection in enumerate(self._connections)}
        for connection in waiting:
            connection.send((order, arguments))
        answers = {}
        while waiting:
            ready = multiprocessing.connection.wait(waiting, MOST_SECONDS)
            if not ready:
                raise TimeoutError(f"No answer to {order} in {MOST_SECONDS} s from {waiting}")
            for connection in ready:
                number = waiting.pop(connection)
                try:
                    answers[number], error = connection.recv()
                except EOFError:
                    error = "its process died"
                if error:
                    place = f"{order} of worker {number}: " if len(self.pids) > 1 else ""
                    raise RuntimeError(f"{place}{error}")
        return [answers[number] for number in range(len(self._connections))]


def resident_bytes(field="RssAnon"):
    """Memory of this process: `RssAnon` now, or `VmHWM`, the most since `forget_peak`."""
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    raise KeyError(field)


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def sent_bytes(device):
    """What this process' network namespace has sent so far by a device, with all headers."""
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == device:
            return int(counts.split()[8])
    raise KeyError(device)
