import pathlib
import re


def available_memory():
    """Returns the bytes of memory that the system can give, or `None` if it does not say."""
    path = pathlib.Path("/proc/meminfo")
    match = re.search(r"MemAvailable: +(\d+) kB", path.read_text()) if path.exists() else None
    return match and int(match[1]) * 1024
