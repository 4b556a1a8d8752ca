import pathlib
import re

_PROC = pathlib.Path("/proc")
_CGROUPS = pathlib.Path("/sys/fs/cgroup")
# Of version 2 of cgroups and of version 1: what a group may have, what it has, and what of that is
# files that are read or written, which make room.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory():
    """Returns the bytes of memory that this process can still have, or `None` if not known.

    They are what the system can give, or less where the process is in a container with a limit.
    """
    rooms = [*_room_of_system(), *_rooms_of_groups()]
    return min(rooms) if rooms else None


def missing_memory(num_bytes):
    """Returns what an error says where memory has no room for the bytes; `None` if it has."""
    available = available_memory()
    if available is None or num_bytes <= available:
        return None
    return f"{num_bytes / 2**30:.3g} GiB, with {available / 2**30:.3g} GiB available"


def _room_of_system():
    kibibytes = _number_in(_PROC / "meminfo", r"MemAvailable: +(\d+) kB")
    return [] if kibibytes is None else [1024 * kibibytes]


def _rooms_of_groups():
    """The limits of the group that this process is in, and of those that are around it."""
    for folder in _groups():
        for limit_file, usage_file, of_files in _FILES:
            limit = _number_in(folder / limit_file, r"(\d+)")  # or "max"
            usage = _number_in(folder / usage_file, r"(\d+)")
            if limit is not None and usage is not None:
                files = _number_in(folder / "memory.stat", rf"^{of_files} (\d+)") or 0
                yield max(0, limit - usage + files)


def _groups():
    text = _text_of(_PROC / "self" / "cgroup")
    for controllers, path in re.findall(r"^\d+:(.*?):/(.*)$", text, re.MULTILINE):
        if controllers not in ("", "memory"):
            continue
        root = _CGROUPS / controllers
        # In a container a group may have another path than outside: the root is its own then.
        folder = root / path
        yield from (each for each in (folder, *folder.parents) if each.is_relative_to(root))


def _number_in(path, pattern):
    match = re.search(pattern, _text_of(path), re.MULTILINE)
    return match and int(match[1])


def _text_of(path):
    try:
        return path.read_text()
    except OSError:
        return ""
