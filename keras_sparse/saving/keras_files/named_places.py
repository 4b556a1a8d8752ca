"""Where Keras' files have what, by names: a place in a file is a class and a number."""

import dataclasses
import itertools
import re
from typing import Any

import h5py
from keras.src.saving import saving_lib  # how Keras walks over a model has no public name
from keras.src.saving.keras_saveable import KerasSaveable
from keras.src.utils.naming import to_snake_case

from keras_sparse.saving.keras_files.local_copy import shards_of
from keras_sparse.utils import checks


def saveables_of(model):
    """Returns a dict of a model's layers and optimizer by their places in Keras' files."""
    found: dict[str, Any] = {}
    _walk(model, "", found, set())
    return found


def _walk(saveable, path, found, seen):
    if id(saveable) in seen:
        return
    seen.add(id(saveable))
    found[path] = saveable
    for attribute, child in saving_lib._walk_saveable(saveable):
        _walk_child(child, _join(path, attribute), found, seen, set())


def _walk_child(child, path, found, seen, containers):
    if isinstance(child, KerasSaveable):
        _walk(child, path, found, seen)
    elif isinstance(child, (list, dict, tuple)) and id(child) not in containers:
        containers.add(id(child))  # while the outermost one keeps it alive
        used: dict[str, int] = {}
        for each in child.values() if isinstance(child, dict) else child:
            is_saveable = isinstance(each, KerasSaveable)
            if is_saveable or isinstance(each, (list, dict, tuple)):
                name = to_snake_case(type(each).__name__) if is_saveable else "container"
                count = used[name] = used.get(name, -1) + 1
                numbered = f"{name}_{count}" if count else name
                _walk_child(each, _join(path, numbered), found, seen, containers)


def _join(path, name):
    return f"{path}/{name}" if path else name


def names_in(path):
    """Returns a dict of the names that a weights file has for layers by their places.

    Args:
        path: `pathlib.Path` of a `.weights.h5`, or of the `.weights.json` of several.
    """
    names: dict[str, str | None] = {}

    def collect(name, group):
        if isinstance(name, bytes) or not isinstance(group, h5py.Group):
            return  # bytes are what h5py gives of what is no UTF-8
        place, _, last = name.rpartition("/")
        if last == "vars":
            known = group.attrs.get("name")
            # Of several files the first one with a layer has its name.
            names[place] = names.get(place) or (known if isinstance(known, str) else None)

    for each in sorted(shards_of(path)) if path.suffix == ".json" else [path.name]:
        with h5py.File(checks.regular_file(path.with_name(each)), "r") as file:
            file.visititems(collect)
    return names


@dataclasses.dataclass
class _Peers:
    """Members of one list that have one name, or an automatic one of one class."""

    paths: list = dataclasses.field(default_factory=list)
    numbers: list = dataclasses.field(default_factory=list)  # of automatic names

    def order(self):
        """The order in which they were made, as far as automatic names say it."""
        return sorted(range(len(self.numbers)), key=self.numbers.__getitem__)


class NamedPlaces:
    """The places of a model or of a file by names that do not depend on what else there is.

    An attribute goes by its name, and a member of a list by that of the layer. Of layers whose name
    is from Keras, which counts them, those of one class in a list go by their order.

    Args:
        names: Dict of the names of layers, or `None` where they are unknown, by their places.

    Attributes:
        key_of: Dict of keys by places.
        path_of: Dict of places by keys.
    """

    def __init__(self, names):
        self.names = names
        self.key_of: dict[str, tuple] = {"": ()}
        self._peers: dict[tuple, _Peers] = {}
        for path in sorted(filter(None, names), key=_sort_key):
            self.key_of[path] = self._key(path)
        self.path_of = {key: path for path, key in self.key_of.items()}

    def _key(self, path):
        parent, _, segment = path.rpartition("/")
        holder = parent
        while holder not in self.names and holder:
            holder = holder.rpartition("/")[0]
        group = (*self.key_of.get(holder, ()), parent[len(holder) :].strip("/"))
        if parent == holder:
            return (*group, segment)
        name = self.names[path] or segment
        is_automatic = self.is_automatic(path)
        peers = self._peers.setdefault(
            (*group, stem(segment) if is_automatic else (name,)), _Peers()
        )
        peers.paths.append(path)
        peers.numbers.append(_number(name) if is_automatic else 0)
        return (*group, stem(segment) if is_automatic else (name,), len(peers.paths))

    def is_automatic(self, path):
        """Returns whether a member of a list has a name that Keras made."""
        name, kind = self.names[path], stem(path.rpartition("/")[2])
        # The place of a table has the name of a layer that was given to its owner.
        kinds = (kind, "embedding") if kind == "table_holder" else (kind,)
        return name is None or stem(name) in kinds

    def chain(self, path):
        """Returns the names of what is on the way to a place, its own the last one."""
        parts = path.split("/")
        ways = ("/".join(parts[: i + 1]) for i in range(len(parts)))
        names = {**self.names, "optimizer": None}  # there is one, which Keras counts
        return [names[way] or way.rpartition("/")[2] for way in ways if way in self.names]

    def title(self, path):
        """Returns these names as text."""
        return "/".join(self.chain(path))

    def reason_not_like(self, other, path):
        """Returns why a place has no counterpart that is known for certain, or `None`."""
        key = self.key_of[path]
        for end in range(1, len(key)):
            mine, theirs = self._peers.get(key[:end]), other._peers.get(key[:end])
            is_automatic = isinstance(key[end - 1], str)
            if mine and theirs and is_automatic and mine.order() != theirs.order():
                return (
                    f"its name is automatic, and {len(theirs.paths)} such layers are in the file "
                    f"in place of {len(mine.paths)}, or in another order: give layers names"
                )
        return None if key in other.path_of else "not in the file"


def is_by_names(key):
    """Returns whether no part of a key is an order, as of layers with automatic names."""
    pairs = itertools.pairwise(key)
    return not any(isinstance(a, str) and isinstance(b, int) for a, b in pairs)


def _sort_key(path):
    parts = path.split("/")
    return len(parts), [(stem(part), _number(part)) for part in parts]


def stem(name):
    """Returns a name without the number that Keras puts behind names."""
    return re.sub(r"_\d+$", "", name)


def _number(name):
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0
