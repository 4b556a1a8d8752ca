import os

import keras
from keras.src.saving import serialization_lib  # no public name reads `safe_mode`

from keras_sparse import native
from keras_sparse.distribute.ranks import launcher_environment
from keras_sparse.native import library
from keras_sparse.storage.storage_type import StorageType
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import parse_bytes

_DEFAULT_SIZE = 1 << 30
_NO_LIMIT = 2**63 - 1
# Libraries of the lower tiers that are not in every build.
_NEEDS = {
    "LEVELDB": "libleveldb (Debian: libleveldb-dev)",
    "PMEM": "libpmem (Debian: libpmem-dev)",
}


@keras.saving.register_keras_serializable(package="keras_sparse")
class StorageOption:
    """Defines the tiers of a table, their sizes, and the folder of their files.

    Rows are used and updated in the first tier. When the first tier is full, its coldest rows are
    demoted to the next tier; a later gradient promotes them again, and a lookup reads them from
    their tier. A full tier between the first and the last demotes the rows that it received first.
    Tiers never change the results of a model.

    Args:
        storage_type: `StorageType` or its name. A type that begins with `HBM` needs a GPU; one of
            several ranks checks for its GPU when it creates tables. Defaults to `"DRAM"`: memory
            alone.
        storage_path: Folder for the files of lower tiers; created if missing. Required for lower
            tiers other than `DRAM`. One process uses a folder at a time: rank `r` of `n` uses the
            folder `rank-r-of-n` inside it. Each table has its own folder inside, which is removed
            with the table. The `storage_path` of a loaded model file is accepted in three cases:
            this program already has a `StorageOption` with the same path; the environment variable
            `KERAS_SPARSE_STORAGE_PATHS` (folders separated by ':') names a folder that contains the
            path; or `keras.saving.load_model(..., safe_mode=False)` loads the file. Defaults to
            `None`.
        storage_size: List of integers, in bytes, or of strings such as `"2GB"` and `"64GiB"`: the
            size of each tier, for this table in this process. The size of the first tier covers
            rows, slots, keys and index (of `"HBM"` alone, rows and slots). If the last tier is
            full, the next update raises an error before it changes the table; a static table that
            does not fit raises an error when it is created or receives its optimizer. Defaults to
            `None`. Tiers without an entry have 1 GiB; memory alone has no limit then.
        cache_strategy: `"LRU"` or `"LFU"`. Which rows leave the first tier. `"LRU"` demotes the
            rows whose last gradient is oldest. `"LFU"` demotes the rows with the fewest training
            steps since they entered the first tier, where older steps count less. Defaults to
            `"LRU"`.

    Raises:
        TypeError: `storage_size` is not a list.
        ValueError: `storage_type` or `cache_strategy` is unknown, `storage_path` is missing or a
            URL, or `storage_size` has more entries than tiers.
        NotImplementedError: This build lacks a lower tier, or this process has no GPU for `HBM`.

    Example:
    >>> storage = StorageOption("DRAM_SSDHASH", "rows", storage_size=["512MB", "64GB"])
    >>> layer = keras_sparse.layers.Embedding(None, 64, storage=storage)
    """

    def __init__(
        self, storage_type="DRAM", storage_path=None, storage_size=None, cache_strategy="LRU"
    ):
        names = tuple(str(each) for each in StorageType)
        if storage_type not in names and not str(storage_type).startswith("HBM"):
            # The types that this build may have.
            names = tuple(name for name in names if library.CUDA_VERSION or "HBM" not in name)
        remedy = "To keep cold rows on an SSD, use 'DRAM_SSDHASH'"
        self.storage_type = StorageType(checks.one_of(storage_type, names, "storage_type", remedy))
        self.storage_path = _check_path(storage_path)
        if self.storage_path is not None:
            remember_own(self.storage_path)
        self.storage_size = _check_sizes(storage_size)
        self.cache_strategy = checks.one_of(cache_strategy, ("LRU", "LFU"), "cache_strategy")
        self._check_tiers()

    def _check_tiers(self):
        tiers = self.storage_type.tiers
        with_files = [tier for tier in self.lower_tiers if tier != "DRAM"]
        for tier in with_files:
            if tier in library.LOWER_TIERS:
                continue
            raise NotImplementedError(
                f"A lower tier must be part of this build of keras_sparse, and {tier} is not. "
                f"Install {_NEEDS[tier]} and then keras_sparse again, or use one of "
                f"{library.LOWER_TIERS}. Received: storage_type='{self.storage_type}'"
            )
        if with_files and not self.storage_path:
            raise ValueError(
                "`storage_path` must be a folder for the files of the lower tiers, such as "
                "storage_path='/mnt/nvme/rows'. It is created if missing. Received: "
                f"storage_path={self.storage_path!r} with storage_type='{self.storage_type}'"
            )
        if len(self.storage_size) > len(tiers):
            raise ValueError(
                f"`storage_size` must have at most one size per tier of {tiers}. Received: "
                f"storage_size={self.storage_size}"
            )
        # Last, so that all else shows on a machine without a GPU too. One of several ranks would
        # fail alone, and others wait: they look as they make tables.
        if self.is_on_gpu and not launcher_environment.sizes(launcher_environment.LAUNCHERS):
            native.check_gpu(self.storage_type)

    @property
    def is_on_gpu(self):
        """Boolean. Whether rows are used in the memory of a GPU."""
        return self.storage_type.tiers[0] == "HBM"

    @property
    def lower_tiers(self):
        """Tuple of strings: the tiers below the first one."""
        return self.storage_type.tiers[1:]

    @property
    def sizes(self):
        """List of integers: the bytes of each tier; `2**63 - 1` means no limit."""
        missing = len(self.storage_type.tiers) - len(self.storage_size)
        default = _DEFAULT_SIZE if self.lower_tiers else _NO_LIMIT
        return [*self.storage_size, *[default] * missing]

    def get_config(self):
        """Returns the arguments as a serializable dict."""
        return {
            "storage_type": str(self.storage_type),
            "storage_path": self.storage_path,
            "storage_size": self.storage_size,
            "cache_strategy": self.cache_strategy,
        }

    @classmethod
    def from_config(cls, config):
        """Creates the option that `get_config` describes.

        Raises:
            ValueError: A model file is loaded in Keras' safe mode, and this program has not
                accepted the file's `storage_path`.
        """
        path = _check_path(config.get("storage_path"))
        if path is not None:
            check_of_file(path)
        return cls(**config)


def _check_path(path):
    """Returns `storage_path` as a string, or `None`."""
    if path is None:
        return None
    path = checks.path(path, "storage_path")
    # TensorFlow hands strings over as UTF-8, and to the system a name ends with its first NUL.
    if "\0" in path or any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ValueError(
            "`storage_path` must be a path of UTF-8 text without NUL. Received: "
            f"storage_path={path!r}"
        )
    if checks.is_url(path):
        raise ValueError(
            "`storage_path` must be a folder on a disk of this machine. Received: "
            f"storage_path={path!r}"
        )
    return path


def _check_sizes(sizes):
    """Returns `storage_size` as a list of ints."""
    if sizes is None:
        return []
    if not isinstance(sizes, (list, tuple)):
        raise TypeError(
            "`storage_size` must be a list with the bytes of each tier. Received: "
            f"storage_size={sizes!r}"
        )
    return [parse_bytes(size, f"storage_size[{i}]") for i, size in enumerate(sizes)]


def check_storage(storage, input_dim):
    """Returns the `StorageOption` of a table, or `None`; also deserializes a config."""
    if isinstance(storage, dict):
        storage = keras.saving.deserialize_keras_object(storage)
    if storage is None:
        return None
    if not isinstance(storage, StorageOption):
        raise TypeError(
            f"`storage` must be a keras_sparse.StorageOption. Received: storage={storage!r}"
        )
    if storage.lower_tiers and input_dim is not None:
        raise NotImplementedError(
            "A static table keeps all its rows in its first tier. Pass input_dim=None to keep "
            f"rows in lower tiers. Received: input_dim={input_dim} with "
            f"storage_type='{storage.storage_type}'"
        )
    return storage


# Folders that a file from elsewhere may name for the tiers of its tables.
VARIABLE = "KERAS_SPARSE_STORAGE_PATHS"

# Paths that this program has named itself: the texts, and their targets at that time.
_own_paths: set[str] = set()


def remember_own(path):
    """Accepts a path in model files, because a `StorageOption` of the program has it."""
    _own_paths.update((path, os.path.realpath(path)))


def check_of_file(path):
    """Raises ValueError if a file that is being loaded names a path that the program does not.

    Keras loads in safe mode unless it is asked not to. To it that is also what a program makes of a
    config of its own, by `from_config`: its paths are the program's, wherever it works by then.
    """
    if not serialization_lib.in_safe_mode():
        return
    real = os.path.realpath(path)
    allowed = [os.path.realpath(each) for each in _allowed_folders()]
    if path in _own_paths or real in _own_paths:
        return
    if any(os.path.commonpath((real, each)) == each for each in allowed):
        return
    raise ValueError(
        "The `storage_path` of a loaded model file must be accepted by this program, because "
        "loading creates files there. Create a keras_sparse.StorageOption with this path first, "
        f"or set {VARIABLE} to a folder that contains it, or load trusted files with "
        f"`safe_mode=False`. Received: storage_path={path!r}"
    )


def _allowed_folders():
    value = os.environ.get(VARIABLE, "")
    return [os.path.expanduser(each) for each in value.split(os.pathsep) if each]
