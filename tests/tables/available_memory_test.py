"""The memory that is left is that of the system, or of the container, whichever is less."""

import pytest

from keras_sparse.tables import available_memory

SYSTEM = {"proc/meminfo": "MemTotal:  99 kB\nMemAvailable:  8 kB\n"}
VERSION_2 = {**SYSTEM, "proc/self/cgroup": "0::/pods/mine\n"}
VERSION_1 = {**SYSTEM, "proc/self/cgroup": "5:devices:/mine\n4:memory:/mine\n0::/\n"}


def group(folder, limit, usage, names=("memory.max", "memory.current"), **stat):
    files = {names[0]: f"{limit}\n", names[1]: f"{usage}\n"}
    files["memory.stat"] = "".join(f"{name} {value}\n" for name, value in stat.items())
    return {f"cgroup{folder}/{name}": text for name, text in files.items()}


OF_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
CASES = {
    "no answer": ({}, None),
    "system": (SYSTEM, 8192),
    "no limit": ({**VERSION_2, **group("/pods/mine", "max", 7)}, 8192),
    "limit": ({**VERSION_2, **group("/pods/mine", 5000, 1000)}, 4000),
    "files make room": (
        {**VERSION_2, **group("/pods/mine", 5000, 4000, active_file=9, inactive_file=700)},
        1700,
    ),
    "more than the system": ({**VERSION_2, **group("/pods/mine", 50000, 1000)}, 8192),
    "used up": ({**VERSION_2, **group("/pods/mine", 5000, 6000)}, 0),
    "group around it": (
        {**VERSION_2, **group("/pods/mine", "max", 0), **group("/pods", 3000, 1000)},
        2000,
    ),
    "seen from inside": ({**VERSION_2, **group("", 3000, 1000)}, 2000),
    "version 1": (
        {**VERSION_1, **group("/memory/mine", 5000, 2000, OF_1, total_inactive_file=500)},
        3500,
    ),
    "another controller": ({**VERSION_1, **group("/devices/mine", 5000, 2000, OF_1)}, 8192),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_is_what_the_system_and_the_groups_leave(files, expected, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(available_memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(available_memory, "_CGROUPS", tmp_path / "cgroup")
    assert available_memory.available_memory() == expected
