"""Loads the parts of a file that a model has, by names."""

import collections
import contextlib
import re
import warnings

from keras.optimizers import Optimizer as _Optimizer
from keras.src.saving import saving_lib  # the store of a file has no public name
from keras.src.utils.naming import to_snake_case

from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.named_store import NamedStore
from keras_sparse.saving.format.named_store import saved_variable_names
from keras_sparse.saving.format.read_dataset import find_dataset
from keras_sparse.saving.keras_files.load_report import LoadReport
from keras_sparse.saving.keras_files.named_places import is_by_names
from keras_sparse.saving.keras_files.named_places import NamedPlaces
from keras_sparse.saving.keras_files.named_places import names_in
from keras_sparse.saving.keras_files.named_places import saveables_of
from keras_sparse.saving.keras_files.named_places import stem

# The datasets of a table, in a file or in place of one that is in a checkpoint.
_OF_TABLE = re.compile(
    r"header|header_crc32|table|(keys|records|ages|frequencies|filter_\w+)_\d{6}"
)


@contextlib.contextmanager
def named_load(model, path, objects_to_skip=None):
    """Yields the `NamedLoad` of a model and a file, or `None` without names."""
    names = names_in(path)
    if not model.built or not any(names.values()):
        yield None
        return
    is_map = path.suffix == ".json"
    open_store = saving_lib.ShardedH5IOStore if is_map else saving_lib.H5IOStore
    with contextlib.closing(open_store(path, mode="r")) as store:
        yield NamedLoad(model, names, store, objects_to_skip)


@contextlib.contextmanager
def explaining(model, path):
    """Adds the differences between model and file to a `ValueError` raised inside."""
    try:
        yield
    except ValueError as error:
        differences = None
        if type(error) is ValueError:  # no other one, as of damage
            with contextlib.suppress(Exception), named_load(model, path) as named:
                differences = named and named.differences()
        if differences is None:
            raise
        raise ValueError(
            "A file must be loaded into a model with the same layers. Use `skip_mismatch=True` "
            f"to load by names what is in both. Received: {differences}\n{error}"
        ) from error


class NamedLoad:
    """A model and a file, put together by names.

    Args:
        model: `keras.Model`.
        names: Dict that `names_in` has returned for the file.
        store: Keras' store of it: `store.get(place)` gives what `load_own_variables` takes.
        objects_to_skip: List of layers that are left out. Defaults to `None`, none.
    """

    def __init__(self, model, names, store, objects_to_skip=None):
        left_out = {id(each) for each in objects_to_skip or ()}
        found = saveables_of(model)
        self._saveables = {p: each for p, each in found.items() if id(each) not in left_out}
        self.store = store
        self._ours = NamedPlaces({p: _name(each) for p, each in found.items()})
        self._theirs = NamedPlaces(names)
        probes = {path: _probe(each) for path, each in self._saveables.items()}
        self._probes = {p: each for p, each in probes.items() if each or each.table is not None}
        kinds = {type(self._saveables[path]).__name__ for path in self._tables()}
        for each in self._saveables.values():
            kinds |= getattr(getattr(each, "templates", None), "kinds", set())
        # All2All layers call their only table "embeddings".
        self._kinds_of_tables = {"embedding", "embeddings", *map(to_snake_case, kinds)}
        saved_tables = [path for path in names if self._is_table(path)]
        counts = (
            collections.Counter(places.names[path] for path in paths)
            for places, paths in ((self._ours, self._tables()), (self._theirs, saved_tables))
        )
        self._repeated = {name for each in counts for name, count in each.items() if count > 1}
        self._given_names = {self._given_name(self._ours, path) for path in self._tables()}
        self._saved_given_names = {self._given_name(self._theirs, path) for path in saved_tables}
        self._counterparts: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._match()

    def _tables(self):
        return [path for path, each in self._probes.items() if each.table is not None]

    def _match(self):
        for path in self._probes:
            reason = self._ours.reason_not_like(self._theirs, path)
            if reason is None and self._is_of_other(path, self._place(path)):
                reason = f"'{self._theirs.title(self._place(path))}' has its place in the file"
            if reason is None:
                self._counterparts[path] = self._place(path)
            else:
                self._skipped[path] = reason
        self._match_moved_tables()

    def _place(self, path):
        return self._theirs.path_of[self._ours.key_of[path]]

    def _is_of_other(self, path, place):
        """Returns whether a place in the file is that of another table.

        Where model and file have no name of a table in common, the model's tables have new names.
        """
        mine, theirs = self._given_names_at(path, place)
        if None in (mine, theirs) or mine == theirs:
            return False
        return bool(self._given_names & self._saved_given_names - {None})

    def _given_names_at(self, path, place):
        """Returns the names that users gave a table of the model and a place in the file."""
        if self._probes[path].table is None:
            return None, None
        return self._given_name(self._ours, path), self._given_name(self._theirs, place)

    def _given_name(self, places, path):
        """Returns the name that a user gave a table, or `None`.

        A name that several tables have follows that of the layer around them, if a user gave one. A
        table without a name has that layer's.
        """
        name, segment = places.names[path], path.rpartition("/")[2]
        is_given = self._is_name(name)
        if is_given and name not in self._repeated:
            return name
        # A layer that has several tables says nothing of one that no one has named.
        has_several = stem(segment) == "table_holder" and name != "embeddings"
        while (is_given or not has_several) and (path := path.rpartition("/")[0]):
            is_member = path in places.names and isinstance(places.key_of[path][-1], int)
            if is_member and not places.is_automatic(path):
                return f"{places.names[path]}/{name}" if is_given else places.names[path]
        return name if is_given else None

    def _is_name(self, name):
        """Returns whether a table has a name that is not from Keras."""
        return name is not None and stem(name) not in self._kinds_of_tables

    def _match_moved_tables(self):
        """A table goes by its own name where another layer holds it now."""
        used = set(self._counterparts.values())
        theirs, ours = collections.defaultdict(list), collections.defaultdict(list)
        for path, name in self._theirs.names.items():
            if path not in used and self._is_table(path):
                theirs[self._given_name(self._theirs, path), name].append(path)
        for path in self._tables():
            given = self._given_name(self._ours, path)
            if path in self._skipped and given is not None:
                ours[given, self._ours.names[path]].append(path)
        for name, paths in ours.items():
            if len(paths) == len(theirs[name]) == 1:
                self._counterparts[paths[0]] = theirs[name][0]
                del self._skipped[paths[0]]

    def _is_table(self, place):
        names = set(self.store.get(place).keys())
        return bool({"header", "table"} & names) or names == {"0"}

    def moved(self):
        """Returns a place in the file of another layer of the model, or `None`.

        Returns:
            `(path, ours, theirs)`: the place, and the names on the way to it.
        """
        for path in self._probes:
            if path not in self._theirs.names or not self.store.get(path).keys():
                continue
            theirs, ours = self._theirs.key_of[path], self._ours.key_of[path]
            is_of_other = is_by_names(theirs) and self._ours.path_of.get(theirs) in self._probes
            is_elsewhere = is_by_names(ours) and ours in self._theirs.path_of
            has_moved = theirs != ours and (is_of_other or is_elsewhere)
            if has_moved or self._is_of_other(path, path):
                return path, self._ours.chain(path), self._theirs.chain(path)
        return None

    def is_needed(self, skip_mismatch, path):
        """Returns whether to load by names, in place of the order of layers.

        Args:
            skip_mismatch: Boolean. Whether it was asked for.
            path: Of the file, or of the checkpoint that it is in.

        Raises:
            ValueError: A table would get the rows of another one, and its own are not in the file.
        """
        if skip_mismatch or self.moved() is None:
            if not skip_mismatch and rank() == 0:
                self._warn_of_new_names(path)
            return skip_mismatch
        if self._skipped:
            self.check_complete(self._report([]), path)
        return True

    def _warn_of_new_names(self, path):
        places = [each for each in self._tables() if each in self._theirs.names]
        pairs = [self._given_names_at(each, each) for each in places if self._is_table(each)]
        pairs = [pair for pair in pairs if None not in pair and pair[0] != pair[1]]
        if pairs:
            ours, theirs = zip(*pairs, strict=True)
            warnings.warn(
                "Tables should have the names that they were saved with. None of the names is in "
                "the file, and tables are loaded in the order of layers. Name the layers as in the "
                f"file if that is wrong. Received: tables {list(theirs)} of '{path}' for "
                f"{list(ours)} of model '{self._ours.names['']}'",
                stacklevel=5,
            )

    def differences(self):
        """Returns what the model and the file do not have in common, as text, or `None`."""
        for path, place in self._counterparts.items():
            if self._theirs.key_of[place] != self._ours.key_of[path]:
                self._skipped[path] = f"'{self._theirs.title(place)}' in the file"
            elif not isinstance(self._saveables[path], _Optimizer):
                try:
                    self._values(path, self.store.get(place))
                except ValueError as error:
                    self._skipped[path] = str(error)
        report = self._report([])
        return str(report) if report.skipped or report.unused else None

    def check_complete(self, report, path):
        """Raises ValueError if something was left out, where layers have other places in the file.

        Args:
            report: What `load` has returned.
            path: Of the file, or of the checkpoint that it is in.
        """
        # As in Keras, the fitting variables of an optimizer are loaded.
        skipped = [p for p in self._skipped if not isinstance(self._saveables[p], _Optimizer)]
        if not skipped and not report.unused:
            return
        place, ours, theirs = self.moved()
        kind, texts = "layer", (self._theirs.title(place), self._ours.title(place))
        table = self._probes[place].table
        if table is not None and (table := table.local) is not None:
            renamed = dict(zip(ours, theirs, strict=False))
            parts = [renamed.get(part, part) for part in table.path.split("/")]
            kind, texts = "table", ("/".join(parts), table.path)
        rule = (
            "A file must be loaded into a model whose layers have the saved order or the saved "
            "names, because Keras would otherwise load them by order into the wrong places. Use"
        )
        mine, saved = self._given_names_at(place, place)
        is_table = None not in (mine, saved)
        if is_table and mine not in self._saved_given_names and saved not in self._given_names:
            names = zip(mine.split("/"), saved.split("/"), strict=False)
            name = next((theirs for ours, theirs in names if ours != theirs), saved)
            rule = (
                "A table that has a name must be loaded by its name, and the file has another "
                f"table in its place. Name the layer '{name}', or use"
            )
        raise ValueError(
            f"{rule} `skip_mismatch=True` to load by names what is in both. Received: "
            f"{kind} '{texts[0]}' of '{path}' for '{texts[1]}' of model "
            f"'{self._ours.names['']}', and by names:\n{report}"
        )

    def load(self, fits):
        """Loads all that fits but the rows of tables.

        Args:
            fits: Function of a table and its store, which raises ValueError if they do not fit.

        Returns:
            `(tables, report)`: a list of tables that fit with their places, and a `LoadReport`.
        """
        tables, loaded = [], []
        for path, place in self._counterparts.items():
            if isinstance(self._saveables[path], _Optimizer):
                continue
            table, store = self._probes[path].table, self.store.get(place)
            try:
                if table is not None:
                    fits(table, store)
                self._load_layer(path, self._values(path, store))
            except ValueError as error:
                self._skipped[path] = str(error).rpartition("Received: ")[2]
                continue
            loaded.append(path)
            if table is not None:
                tables.append((table, place))
        self._load_optimizers(loaded)
        return tables, self._report(loaded)

    def _values(self, path, store):
        """Returns what a layer loads beside a table, or raises ValueError if it does not fit."""
        probe, values = self._probes[path], NamedStore()
        names = list(store.keys())
        if probe.table is not None:
            names = [] if names == ["0"] else [n for n in names if not _OF_TABLE.fullmatch(n)]
        if set(names) != set(probe):
            raise ValueError(f"it has variables {sorted(probe)}, and the file has {sorted(names)}")
        for name in names:
            find_dataset(store, name)  # refuses more bytes than the file has
            values[name] = store[name]
            if name.isdigit() and values[name].shape != tuple(probe[name].shape):
                raise ValueError(
                    f"variable {name} is of shape {tuple(probe[name].shape)}, and in the file of "
                    f"shape {values[name].shape}"
                )
        return values

    def _load_layer(self, path, values):
        try:
            self._saveables[path].load_own_variables(values)
        except PARSER_ERRORS as error:
            raise ValueError(str(error)) from error

    def _load_optimizers(self, loaded):
        """Loads the optimizer, and those in it, whose variables a file may have with either."""
        found, layers = set(), list(loaded)
        paths = [p for p in self._probes if isinstance(self._saveables[p], _Optimizer)]
        for path in paths:
            if path not in self._counterparts:
                continue
            store = self.store.get(self._counterparts[path])
            numbers = self._numbers(path, store, layers)
            for variable, number in zip(self._saveables[path].variables, numbers, strict=True):
                if number is None:
                    continue
                find_dataset(store, str(number))
                value = store[str(number)]
                if value.shape == tuple(variable.shape):
                    variable.assign(value)
                    found.add(id(variable))
        for path in paths:
            self._skipped.pop(path, None)
        for path in paths[:1]:
            variables = self._saveables[path].variables
            fresh = [each.path.rpartition("/")[2] for each in variables if id(each) not in found]
            if not found:
                self._skipped[path] = "not in the file"
            elif fresh:
                self._skipped[path] = f"starts afresh with {', '.join(fresh)}"
            else:
                loaded.append(path)

    def _numbers(self, path, store, loaded):
        """Returns the number in the file of each variable of an optimizer, or `None`."""
        variables, saved = self._saveables[path].variables, saved_variable_names(store)
        if saved is None:
            # Files of earlier versions match by order, if all dense layers do.
            dense = [
                each
                for each, probe in self._probes.items()
                if probe.table is None and not isinstance(self._saveables[each], _Optimizer)
            ]
            is_same = all(self._counterparts.get(each) == each in loaded for each in dense)
            num_saved = len(store.keys())
            is_same = is_same and len(variables) == num_saved
            return [
                i if i < num_saved and (is_same or _is_scalar(each)) else None
                for i, each in enumerate(variables)
            ]
        numbers = {name: number for number, name in enumerate(_uncounted(saved))}
        steps = [number for name, number in numbers.items() if name[1] == "iteration"]
        slots = self._slots(loaded)
        found = []
        names = _uncounted([each.path for each in variables])
        for variable, (optimizer, name, count) in zip(variables, names, strict=True):
            owner = max((each for each in slots if name.startswith(each)), key=len, default="")
            there = slots.get(owner, "") + name[len(owner) :]
            is_known = bool(owner) or _is_scalar(variable)
            number = numbers.get((optimizer, there, count)) if is_known else None
            found.append(steps[0] if number is None and name == "iteration" and steps else number)
        return found

    def _slots(self, loaded):
        """Returns a dict of what names of slots begin with in the file by what they do here."""
        slots = {}
        for path in loaded:
            ways = self._ours.chain(path), self._theirs.chain(self._counterparts[path])
            renamed = dict(zip(*ways, strict=False))
            renamed[self._ours.names[""]] = self._theirs.names.get("")
            for variable in self._saveables[path].variables:
                parts = variable.path.split("/")
                slots["_".join([*parts, ""])] = "_".join(
                    [*(renamed.get(p) or p for p in parts), ""]
                )
        return slots

    def _report(self, loaded):
        used = set(self._counterparts.values())
        places = [
            place
            for place in self._theirs.names
            if place not in used
            and self.store.get(place).keys()
            and place.partition("/")[0] != "optimizer"  # as Keras, which leaves out what is in it
        ]
        skipped: dict[str, str] = {}
        for path, reason in self._skipped.items():
            title = self._ours.title(path)
            skipped[path if title in skipped else title] = reason
        return LoadReport(
            tuple(self._ours.title(path) for path in self._probes if path in loaded),
            skipped,
            tuple(self._theirs.title(path) for path in places),
        )


def _name(saveable):
    name = getattr(saveable, "name", None)
    return name if isinstance(name, str) else None


def _probe(saveable):
    """Returns what a layer would save, with its table apart; of an optimizer its variables."""
    store = NamedStore()
    if isinstance(saveable, _Optimizer):
        store.update({str(i): each for i, each in enumerate(saveable.variables)})
        return store
    with contextlib.suppress(Exception):  # one that cannot be saved now, as it is not built
        saveable.save_own_variables(store)
    return store


def _uncounted(paths):
    """Yields `(optimizer, name, count)` for variables, without the numbers that Keras gives."""
    counts: collections.Counter = collections.Counter()
    for path in paths:
        name = tuple(map(stem, ["", *path.split("/")][-2:]))
        counts[name] += 1
        yield *name, counts[name]


def _is_scalar(variable):
    return tuple(variable.shape) == ()
