from keras_sparse.install_horovod import install
from keras_sparse.install_horovod import InstallError


def run(options):
    """Installs it.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    try:
        install(options.force)
    except OSError as error:  # as of a full disk: not of what the command was given
        raise InstallError(str(error)) from error
