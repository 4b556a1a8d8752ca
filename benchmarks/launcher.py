"""What starts ranks."""

import importlib.util
import pathlib
import sysconfig

HOROVODRUN = pathlib.Path(sysconfig.get_path("scripts"), "horovodrun")


def reason_against_ranks():
    """Why there can be no ranks here, in words; `None` if there can."""
    if importlib.util.find_spec("horovod") is None:
        return "there is no Horovod; `python -m keras_sparse install-horovod` installs it"
    return None
