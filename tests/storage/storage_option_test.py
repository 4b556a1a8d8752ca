import datetime
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import EmbeddingVariable
from keras_sparse import GlobalStepEvict
from keras_sparse import L2WeightEvict
from keras_sparse import LfuEvict
from keras_sparse import LruEvict
from keras_sparse import ProbabilityFilter
from keras_sparse import StorageOption
from keras_sparse import StorageType
from keras_sparse import TimeToLive
from keras_sparse.layers import Embedding
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
            "`storage_type` must be one of .*on an SSD, use 'DRAM_SSDHASH'.*='SSD'",
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
        ({"storage_size": [1, 2]}, ValueError, "at most one size per tier of \\('DRAM',\\)"),
        ({"storage_size": [0]}, ValueError, "`storage_size\\[0\\]` must be above 0"),
        ({"storage_size": [1, 2**63]}, ValueError, "`storage_size\\[1\\]` must be below 2..63"),
        (
            {"storage_size": ["2 gigabytes"]},
            ValueError,
            "`storage_size\\[0\\]` must be a number of",
        ),
        ({"storage_size": [1.5]}, TypeError, "`storage_size\\[0\\]` must be an integer"),
        ({"storage_size": [1e9]}, TypeError, "`storage_size\\[0\\]` must be .*: int\\(100000.*"),
        ({"storage_size": 1 << 30}, TypeError, "must be a list with the bytes of each tier"),
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
    with pytest.raises(ValueError, match="`storage_size` must have at most one size per tier"):
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
    words = rf"and {tier} is not\. Install {library} .* again, or use one of \('SSDHASH',\)"
    with pytest.raises(NotImplementedError, match=words):
        StorageOption(storage_type, "rows")


# What holds for each filter, eviction policy and storage option, and for tables that have one.
# None of their arguments has its default.
OBJECTS = [
    CounterFilter(3, "initializer", "occurrences"),
    ProbabilityFilter(0.25, 7, -1),
    CBFFilter(3, 10, 0.25, "uint16", "initializer", "occurrences"),
    GlobalStepEvict(3, at_save=False),
    L2WeightEvict(1.7e-3, at_save=False),
    TimeToLive(2.5, at_save=False),
    TimeToLive(np.float32(2.5), at_save=False),
    TimeToLive(datetime.timedelta(days=30), at_save=False),
    LruEvict(at_save=False),
    LfuEvict(at_save=False),
    StorageOption("DRAM_SSDHASH", "ssd", [1 << 20], "LFU"),
]


@pytest.mark.parametrize("each", OBJECTS, ids=lambda each: type(each).__name__)
def test_survives_its_config(each):
    config = keras.saving.serialize_keras_object(each)
    copy = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert type(copy) is type(each)
    assert copy.get_config() == each.get_config()
    assert vars(copy) == vars(each)


def test_a_timedelta_is_its_seconds():
    assert TimeToLive(datetime.timedelta(days=30)).seconds == 30 * 24 * 3600


@pytest.mark.parametrize(
    "options",
    [
        {"admission": CounterFilter(3), "eviction": GlobalStepEvict(3), "frequency": True},
        {"admission": ProbabilityFilter(0.3), "eviction": LruEvict(at_save=False), "max_rows": 9},
        {"admission": CBFFilter(3, 300, 0.1, "uint8"), "eviction": LfuEvict(), "max_rows": 99},
        {"eviction": L2WeightEvict(1.7e-3)},
        {"eviction": TimeToLive(datetime.timedelta(days=30)), "frequency": True},
        {"eviction": LruEvict(), "max_rows": 100},
    ],
    ids=lambda options: ",".join(type(each).__name__ for each in options.values()),
)
def test_a_layer_keeps_its_contract_with_them(options, tmp_path):
    ids = np.array([[1, -(2**63)], [3, 3], [4, 1]])
    layer = Embedding(None, 2, embeddings_initializer="ones", **options)
    checks.check_layer(layer, ids, (3, 2, 2), tmp_path)
    clone = Embedding.from_config(json.loads(json.dumps(layer.get_config())))
    for name in ("admission", "eviction"):
        ours, theirs = (getattr(each, name) for each in (layer, clone))
        assert (type(ours), ours and vars(ours)) == (type(theirs), theirs and vars(theirs))
    assert (clone.frequency, clone.max_rows) == (layer.frequency, layer.max_rows)


def test_a_layer_without_them_has_none():
    plain = Embedding.from_config(Embedding(None, 4).get_config())
    assert (plain.admission, plain.eviction, plain.storage) == (None, None, None)
    storage = StorageOption("DRAM_SSDHASH", "ssd", [1 << 20], "LFU")
    copy = Embedding.from_config(Embedding(None, 4, storage=storage).get_config())
    assert copy.storage.get_config() == storage.get_config()


DYNAMIC = "must be used with a dynamic table.*input_dim=10 with"


@pytest.mark.parametrize("make", [Embedding, EmbeddingVariable])
@pytest.mark.parametrize(
    ("input_dim", "options", "error", "words"),
    [
        (None, {"admission": 3}, TypeError, r"`admission` must be a filter of keras_sparse\.stor"),
        (10, {"admission": CounterFilter(3)}, ValueError, f"`admission` {DYNAMIC}"),
        (None, {"eviction": 3}, TypeError, r"`eviction` must be a policy of keras_sparse\.stor"),
        (10, {"eviction": L2WeightEvict(1.0)}, ValueError, f"`eviction` {DYNAMIC}"),
        (10, {"eviction": LruEvict()}, ValueError, f"`eviction` {DYNAMIC}"),
        (10, {"eviction": LfuEvict()}, ValueError, f"`eviction` {DYNAMIC}"),
        (None, {"eviction": LruEvict()}, ValueError, "LruEvict must be used with `max_"),
        (None, {"eviction": LfuEvict()}, ValueError, "LfuEvict must be used with `max_"),
        (10, {"frequency": True}, ValueError, f"`frequency` {DYNAMIC}"),
        (None, {"frequency": "yes"}, TypeError, "`frequency` must be"),
        (None, {"storage": "DRAM_SSDHASH"}, TypeError, r"`storage` must be a keras_sparse\.Stor"),
        (
            10,
            {"storage": StorageOption("DRAM_SSDHASH", "ssd")},
            NotImplementedError,
            "input_dim=10 with storage_type='DRAM_SSDHASH'",
        ),
    ],
)
def test_a_table_takes_nothing_else(input_dim, options, error, words, make):
    with pytest.raises(error, match=words):
        make(input_dim, 4, **options)


@pytest.mark.parametrize("eviction", [None, 3])
def test_rows_are_evicted_by_a_policy_alone(eviction):
    with pytest.raises(TypeError, match=rf"`eviction` must be a policy of .*eviction={eviction}"):
        keras_sparse.ops.evict_rows([EmbeddingVariable(None, 4)], eviction)


NO_PERMISSION = "default_value_no_permission"
SECONDS = "`seconds` must be .* Received: seconds="
REFUSED = [
    (CounterFilter, (0,), ValueError, "`filter_freq` must be above 0"),
    (CounterFilter, (2.0,), TypeError, "`filter_freq` must be an integer"),
    (CounterFilter, (2**32,), ValueError, "`filter_freq` must be at most 4294967295"),
    (CounterFilter, (2, 0.0, "ids"), ValueError, "`count` must be one of"),
    (CounterFilter, (2, "zeros"), ValueError, f'`{NO_PERMISSION}` must be a number or "initial'),
    (CounterFilter, (2, 1e40), ValueError, f"`{NO_PERMISSION}` must be in the range of float32"),
    (CounterFilter, (2, float("nan")), ValueError, f"`{NO_PERMISSION}` must be finite"),
    (ProbabilityFilter, (0,), ValueError, "`p` must be above 0 and at most 1"),
    (ProbabilityFilter, (1.5,), ValueError, "`p` must be above 0 and at most 1"),
    (ProbabilityFilter, ("half",), TypeError, "`p` must be a number"),
    (ProbabilityFilter, (0.5, 1.5), TypeError, "`seed` must be an integer"),
    (CBFFilter, (0, 10), ValueError, "`filter_freq` must be above 0"),
    (CBFFilter, (256, 10, 0.1, "uint8"), ValueError, "`filter_freq` must fit .* at most 255"),
    (CBFFilter, (65536, 10, 0.1, "uint16"), ValueError, "`filter_freq` must fit .* at most 65535"),
    (CBFFilter, (2**53 + 1, 10, 0.1, "uint64"), ValueError, "`filter_freq` must fit"),
    (CBFFilter, (3, 0), ValueError, "`max_element_size` must be above 0"),
    (CBFFilter, (3, 10, 0.0), ValueError, r"must be in \[2\*\*-64, 0\.5\]"),
    (CBFFilter, (3, 10, 0.9), ValueError, r"must be in \[2\*\*-64, 0\.5\]"),
    (CBFFilter, (3, 10, "low"), TypeError, "`false_positive_probability` must be a number"),
    (CBFFilter, (3, 10, 0.1, "int8"), ValueError, "`counter_type` must be one of"),
    (GlobalStepEvict, (0,), ValueError, "`steps_to_live` must be above 0"),
    (GlobalStepEvict, (2.0,), TypeError, "`steps_to_live` must be an integer"),
    (GlobalStepEvict, (2**31,), ValueError, "`steps_to_live` must be at most 2147483647"),
    (L2WeightEvict, (0,), ValueError, "`l2_weight_threshold` must be above 0"),
    (L2WeightEvict, (-1.0,), ValueError, "`l2_weight_threshold` must be above 0"),
    (L2WeightEvict, (float("nan"),), ValueError, "`l2_weight_threshold` must be finite"),
    (L2WeightEvict, ("1",), TypeError, "`l2_weight_threshold` must be a number"),
    (L2WeightEvict, (1.0, "epoch"), TypeError, "`at_save` must be True or False"),
    *((TimeToLive, (each,), TypeError, SECONDS) for each in ("1d", True, None)),
    *((TimeToLive, (each,), ValueError, SECONDS) for each in (0, 0.5, -1, 2**31)),
    *((TimeToLive, (float(each),), ValueError, SECONDS) for each in ("nan", "inf")),
    (TimeToLive, (datetime.timedelta(milliseconds=3),), ValueError, SECONDS),
]


@pytest.mark.parametrize(("make", "arguments", "error", "words"), REFUSED)
def test_refuses_what_no_option_of_a_table_can_be(make, arguments, error, words):
    with pytest.raises(error, match=words):
        make(*arguments)
