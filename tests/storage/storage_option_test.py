import pathlib

import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import StorageOption
from keras_sparse import StorageType
from table_twins import Twins

WITHOUT_HBM = [
    "DRAM",
    "DRAM_LEVELDB",
    "DRAM_PMEM",
    "DRAM_PMEM_LEVELDB",
    "DRAM_PMEM_SSDHASH",
    "DRAM_SSDHASH",
]
WITH_HBM = ["HBM", *(f"HBM_{name}" for name in WITHOUT_HBM)]


def test_lists_the_tiers_of_each_type():
    assert sorted(str(each) for each in StorageType) == WITHOUT_HBM + WITH_HBM
    assert StorageType.DRAM.tiers == ("DRAM",)
    assert StorageType.HBM_DRAM_PMEM_SSDHASH.tiers == ("HBM", "DRAM", "PMEM", "SSDHASH")
    assert all(each.value == each.name for each in StorageType)


def test_defaults_to_memory_alone():
    option = StorageOption()
    assert (option.storage_type, option.lower_tiers) == ("DRAM", ())
    assert option.cache_strategy == "LRU"


def test_takes_sizes_as_text():
    option = StorageOption("DRAM_SSDHASH", "ssd", storage_size=["2GB", "64 GiB"])
    assert option.sizes == [2 * 10**9, 64 << 30]
    again = StorageOption.from_config(option.get_config())
    assert again.get_config() == option.get_config()


def test_fills_up_sizes_with_a_gibibyte():
    option = StorageOption("DRAM_SSDHASH", "ssd", storage_size=[512])
    assert option.sizes == [512, 1 << 30]
    assert StorageOption(StorageType.DRAM_SSDHASH, "ssd").sizes == [1 << 30, 1 << 30]


def test_memory_alone_has_no_limit_unless_it_is_given_one():
    assert StorageOption().sizes == [2**63 - 1]
    twins = Twins(StorageOption(storage_size=[1 << 20]))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="hold all rows of table 'embed"):
        twins.train_some(100)
    twins.check()
    assert 1500 < twins.tiered.stats()["rows"] < 2100
    with pytest.raises(tf.errors.ResourceExhaustedError, match="all rows of static table"):
        keras_sparse.EmbeddingVariable(3000, 100, storage=StorageOption(storage_size=[1 << 20]))


def test_takes_a_path_of_any_kind():
    for path in ("rows", b"rows", pathlib.Path("rows")):
        assert StorageOption("DRAM_SSDHASH", path).storage_path == "rows"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"storage_type": "SSD"},
            ValueError,
            "`storage_type` must be one of .*on an SSD take 'DRAM_SSDHASH'.*='SSD'",
        ),
        (
            {"storage_type": "DRAM_SSDHASH"},
            ValueError,
            "`storage_path` must be a folder .* such as storage_path='/.*=None with",
        ),
        ({"storage_path": "a\0b"}, ValueError, "UTF-8 text without NUL. Received: .*'a.x00b'"),
        ({"storage_path": b"\xff"}, ValueError, "UTF-8 text without NUL. Received: .*'.udcff'"),
        ({"storage_path": 5}, TypeError, "`storage_path` must be a path: .*=5 of type int"),
        ({"storage_path": [1 << 30]}, TypeError, "`storage_path` must be a path: .* type list"),
        (
            {"storage_path": "gs://a/b"},
            ValueError,
            "a folder on a disk of this machine.*'gs://a/b'",
        ),
        ({"storage_size": [1, 2]}, ValueError, "at most one size a tier, of \\('DRAM',\\)"),
        ({"storage_size": [0]}, ValueError, "`storage_size\\[0\\]` must be above 0"),
        ({"storage_size": [1, 2**63]}, ValueError, "`storage_size\\[1\\]` must be below 2..63"),
        (
            {"storage_size": ["2 gigabytes"]},
            ValueError,
            "`storage_size\\[0\\]` must be a number of",
        ),
        ({"storage_size": [1.5]}, TypeError, "`storage_size\\[0\\]` must be an integer"),
        ({"storage_size": [1e9]}, TypeError, "`storage_size\\[0\\]` must be .*: int\\(100000.*"),
        ({"storage_size": 1 << 30}, TypeError, "must be a list of the bytes of each tier"),
        ({"cache_strategy": "FIFO"}, ValueError, "`cache_strategy` must be one of"),
    ],
)
def test_refuses_what_it_cannot_be(arguments, error, words):
    with pytest.raises(error, match=words):
        StorageOption(**arguments)


@pytest.mark.parametrize("storage_type", WITH_HBM)
@pytest.mark.parametrize(
    ("cuda_version", "words"),
    [
        ("", "a build of keras_sparse with CUDA.*KERAS_SPARSE_CUDA=ON pip install"),
        ("13.0", "a GPU that TensorFlow can use.*where TensorFlow sees no GPU$"),
    ],
)
def test_says_what_tables_in_gpu_memory_lack(storage_type, cuda_version, words, monkeypatch):
    monkeypatch.setattr("keras_sparse.native.library.CUDA_VERSION", cuda_version)
    monkeypatch.setattr("tensorflow.config.get_visible_devices", lambda kind: [])
    for each in (storage_type, StorageType(storage_type)):
        with pytest.raises(NotImplementedError, match=words) as raised:
            StorageOption(each, "rows")
        assert f"Received: storage_type='{storage_type}'" in str(raised.value)


def test_a_machine_without_a_gpu_shows_what_else_is_wrong():
    with pytest.raises(ValueError, match="`storage_path` must be a folder"):
        StorageOption("HBM_DRAM_SSDHASH")
    with pytest.raises(ValueError, match="`storage_size` must have at most one size a tier"):
        StorageOption("HBM", storage_size=[1, 2])
    with pytest.raises(ValueError, match=r"HBM_DRAM_SSDHASH.*Received: storage_type='HBM_SSDHASH'"):
        StorageOption("HBM_SSDHASH")


def test_one_of_several_ranks_says_what_it_lacks_as_its_tables_are_made(monkeypatch):
    monkeypatch.setenv("HOROVOD_SIZE", "2")  # where all can say so
    monkeypatch.setattr("keras_sparse.native.library.CUDA_VERSION", "")
    storage = StorageOption("HBM")
    with pytest.raises(NotImplementedError, match="a build of keras_sparse with CUDA"):
        keras_sparse.EmbeddingVariable(None, 4, storage=storage)


@pytest.mark.parametrize(
    ("storage_type", "tier", "library"),
    [
        ("DRAM_LEVELDB", "LEVELDB", "libleveldb"),
        ("DRAM_PMEM", "PMEM", "libpmem"),
        ("DRAM_PMEM_SSDHASH", "PMEM", "libpmem"),
    ],
)
def test_names_what_a_missing_store_needs(storage_type, tier, library, monkeypatch):
    monkeypatch.setattr("keras_sparse.native.library.LOWER_TIERS", ("SSDHASH",))
    words = rf"and {tier} is not; install {library} .* again, or take one of \('SSDHASH',\)"
    with pytest.raises(NotImplementedError, match=words):
        StorageOption(storage_type, "rows")
