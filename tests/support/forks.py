"""Starts Python in milliseconds: forked from a process that has imported what tests import.

`[*forks.python(), "-m", "pytest"]` is a command like `[sys.executable, "-m", "pytest"]`. The
process that forks has imported TensorFlow, Keras and keras_sparse, and has run no op. A test that
must see an interpreter begin starts `sys.executable`: one of imports, of variables that the C
library reads, or of a launcher. A SIGKILL of the command reaches the program a moment later.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types

# A message is whole or not there.
_KIND = socket.AF_UNIX, socket.SOCK_SEQPACKET
_MOST_BYTES = 1 << 20
_PASSED_ON = signal.SIGINT, signal.SIGTERM


@functools.cache
def python():
    """The beginning of a command that runs Python with the arguments that follow."""
    folder = tempfile.TemporaryDirectory()
    address = os.path.join(folder.name, "socket")
    # It ends when this process does, which closes the pipe.
    server = subprocess.Popen(
        [sys.executable, __file__, "serve", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(folder.cleanup)
    atexit.register(server.communicate)
    assert server.stdout.readline() == b"ready\n"
    return [sys.executable, "-S", "-E", __file__, "run", address]


def _serve(address):
    """Forks for each command, and returns what the process that it forks is to run."""
    import keras  # noqa: F401
    import tensorflow as tf  # noqa: F401

    import keras_sparse  # noqa: F401

    listener = socket.socket(*_KIND)
    listener.bind(address)
    listener.listen()
    gc.collect()
    gc.freeze()  # or the end of each process would walk what was imported
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            sys.exit()
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _supervise(connection)
        connection.close()


def _supervise(connection):
    """Waits for a process of its own, which it kills when the one that asked for it has gone."""
    message, files, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
    child = os.fork()
    if child == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return json.loads(message)
    for file in (0, 1, 2, *files):
        os.close(file)
    ended = os.pidfd_open(child)
    while ended not in select.select([connection, ended], [], [])[0]:
        asked = connection.recv(1)
        os.kill(child, asked[0] if asked else signal.SIGKILL)
        if not asked:
            break
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(command):
    """Runs a command's program as an interpreter that has just begun would."""
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    paths = os.environ.get("PYTHONPATH", "")
    sys.path[:] = ["", *filter(None, paths.split(os.pathsep)), *sys.path]
    kind, *sys.argv = command["arguments"]
    if kind == "-c":
        text, *arguments = sys.argv
        sys.argv = ["-c", *arguments]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *sys.argv]
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


def _run(address, arguments):
    """Has the server run a command with this process' files, and ends as that does."""
    with socket.socket(*_KIND) as server:
        server.connect(address)
        command = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
        socket.send_fds(server, [json.dumps(command).encode()], [0, 1, 2])
        for number in _PASSED_ON:
            signal.signal(number, lambda number, frame: server.send(bytes([number])))
        status = int(server.recv(_MOST_BYTES) or -signal.SIGKILL)
    if status < 0:
        if -status in _PASSED_ON:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _become(_serve(sys.argv[2]))
    else:
        _run(sys.argv[2], sys.argv[3:])
