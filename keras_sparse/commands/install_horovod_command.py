from keras_sparse.install_horovod import install
from keras_sparse.install_horovod import InstallError

_ABOUT = """Builds Horovod, with which several processes train one model, for the TensorFlow of this
Python, and installs it. Takes a minute or two the first time and keeps the wheel in
~/.cache/keras_sparse for the next. It needs a C++ compiler, make and a package index. Variables
named HOROVOD_*, such as HOROVOD_GPU_OPERATIONS=NCCL, reach the build.
"""


def add_to(commands):
    """Adds the command `install-horovod`.

    Args:
        commands: What `argparse.ArgumentParser.add_subparsers` returns.
    """
    parser = commands.add_parser(
        "install-horovod", help="build Horovod, for several processes", description=_ABOUT
    )
    parser.set_defaults(run=run)
    parser.add_argument("--force", action="store_true", help="also where Horovod works already")


def run(options):
    """Installs it.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    try:
        install(options.force)
    except OSError as error:  # as of a full disk: not of what the command was given
        raise InstallError(str(error)) from error
