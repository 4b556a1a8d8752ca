import shutil

import pytest

from benchmarks import beyond_memory

ROWS = 2_500_000  # 1.2 GiB of rows and slots; TensorFlow leaves less of the limit
OPTIONS = ["--rows", str(ROWS), "--limit", "1.5", "--steps", "3"]


def test_a_table_trains_in_less_memory_than_its_rows_take(tmp_path):
    options = beyond_memory.parse([*OPTIONS, "--folder", str(tmp_path)])
    in_memory, beyond = beyond_memory.measure(options)
    assert 0 < in_memory < ROWS, "in memory alone the limit is reached"
    assert beyond["rows"] == ROWS
    assert beyond["equal"] == beyond["sampled"] > 4000
    tier = beyond["tiers"]["SSDHASH"]
    assert tier["rows"] > ROWS * 0.8
    assert tier["memory_bytes"] <= 24 * tier["rows"]
    assert beyond["grown"] < 64, "bytes a row; what waits to be written comes and goes"
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_refused(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    words = f"must have room for .* bytes. .*Received: '{tmp_path}' with .* bytes free"
    with pytest.raises(ValueError, match=words):
        beyond_memory.parse(["--folder", str(tmp_path), "--rows", str(free // 512)])
