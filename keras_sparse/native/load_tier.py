import ctypes
import pathlib

from keras_sparse.native import library

# What each library of the system is called in Debian.
_PACKAGES = {"LEVELDB": "libleveldb1d", "PMEM": "libpmem1"}


def load_tier(tier):
    """Loads the store of a lower tier, if it needs a library of the system.

    Args:
        tier: String, such as `"LEVELDB"`.

    Raises:
        ImportError: The library is absent, or another version of it.
    """
    if tier not in _PACKAGES:
        return
    path = pathlib.Path(library.library_path).with_name(f"_keras_sparse_{tier.lower()}.so")
    try:
        ctypes.CDLL(str(path))  # whoever comes first; it registers itself, once
    except OSError as error:
        raise ImportError(
            f"The tier {tier} must find its library on this system. Install it (Debian: apt-get "
            f"install {_PACKAGES[tier]}), or take another tier. Received: {error}"
        ) from error
