import itertools
from typing import Any

import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.exchange.exchange import Exchange
from keras_sparse.distribute.exchange.exchange_layout import ExchangeLayout
from keras_sparse.distribute.exchange.model_parallel_exchange import ModelParallelExchange
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.tables.distributed_table import DistributedTable
from keras_sparse.distribute.tables.table_for_saved_model import TableForSavedModel
from keras_sparse.saved_model.saved_model_scope import is_for_saved_model
from keras_sparse.saved_model.saved_table import saved_lookup
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.table_part import TablePart

# Layers are built in the same order on all ranks, so that these numbers are the same too.
_numbers = itertools.count()


class LayerTables(tf.__internal__.tracking.Trackable):
    """This rank's part of the tables of a plan, and lookups in all of them.

    To TensorFlow it is what a SavedModel of several ranks finds the whole tables by.

    Args:
        plan: `Plan`.
        layers: List of `Embedding`, one a table: its options.
        by_table: Dict of the `EmbeddingVariable` of each table that this rank has a part of, by its
            place in the plan.
        are_on_gpu: List of booleans, one a table: whether it is in GPU memory on all ranks.
        dp_input: Boolean. Whether each rank has its own samples, of all inputs, rather than all
            samples of its own inputs. Defaults to `True`.
        wire_dtype: As for `ExchangeLayout`. Defaults to `"float32"`.

    Attributes:
        placeholder: `EmbeddingVariable` without a row, for a rank that trains no table that an
            input uses while others do; otherwise `None`.
    """

    def __init__(self, plan, layers, by_table, are_on_gpu, dp_input=True, wire_dtype="float32"):
        self.plan = plan
        self.by_table = by_table
        self._layers = layers
        self._is_exchanged = [
            plan.num_ranks > 1 and placement.kind != "data_parallel"
            for placement in plan.placements
        ]
        self.placeholder = None
        self.exchange: Any = None
        self.samples: Any = None
        if any(self._is_exchanged):
            out_of_range = [layer.out_of_range for layer in layers]
            name = f"keras_sparse.exchange_{next(_numbers)}"
            entries = [native.max_entries(layer) for layer in layers]
            tables = [table for table, is_one in enumerate(self._is_exchanged) if is_one]
            dtypes = [layer.row_dtype for layer in layers]
            layout = ExchangeLayout(
                plan, rank(), tables, out_of_range, entries, dtypes, wire_dtype, name
            )
            self.placeholder = self._make_placeholder(layout, name)
            if dp_input:
                on_gpu = all(are_on_gpu[table] for table in layout.tables)
                self.exchange = self._make_exchange(layout, name, on_gpu)
            else:
                pairs = zip(layers, dtypes, strict=True)
                dtypes = ["float32" if layer.combiner else dtype for layer, dtype in pairs]
                self.samples = ModelParallelExchange(plan, out_of_range, dtypes, wire_dtype, name)
        self._of_ranks = self._make_tables_of_ranks() if plan.num_ranks > 1 else []

    def _make_tables_of_ranks(self):
        for variable in self.variables():
            variable.is_of_ranks = True
        tables = zip(self.plan.tables, self.saved_tables(), self._layers, strict=True)
        return [TableForSavedModel(spec.name, table, layer) for spec, table, layer in tables]

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        return {f"table_{i}": table.saved_table for i, table in enumerate(self._of_ranks)}

    def _make_placeholder(self, layout, name):
        used = set(self.plan.input_table_map)
        trained = [t for t in layout.tables if t in used and self._layers[t].trainable]
        if not trained or any(table in trained for table in layout.own_tables):
            return None
        # Like a part of a table: no other rank has it.
        part = TablePart(name, None, 1, 0, 1, rank(), self.plan.num_ranks)
        return EmbeddingVariable(None, 1, "zeros", name="no_table", part=part)

    def _make_exchange(self, layout, name, on_gpu):
        return Exchange(
            layout,
            [self.by_table[table] for table in layout.own_tables],
            [self._layers[table].combiner is not None for table in layout.own_tables],
            [table in self.plan.input_table_map for table in layout.own_tables],
            self._is_any_trained,
            self.placeholder,
            name,
            on_gpu,
        )

    def _is_any_trained(self):
        """Returns whether an exchanged table is trained: by what is the same on all ranks."""
        used = set(self.plan.input_table_map)
        own = [variable for table, variable in self.by_table.items() if table in used]
        own += [] if self.placeholder is None else [self.placeholder]
        is_frozen = bool(own) and not any(variable.trainable for variable in own)
        return not is_frozen and any(
            self._is_exchanged[table] and self._layers[table].trainable for table in used
        )

    def variables(self):
        """Returns the variables in the order of tables, and the stand-in."""
        own = [self.by_table[table] for table in sorted(self.by_table)]
        return own if self.placeholder is None else [*own, self.placeholder]

    def saved_tables(self):
        """Returns what saving and loading take the tables for, in their order.

        A `LocalTable` that is all of a table, the same on all ranks, or a `DistributedTable`.
        """
        return [self._saved_table(table) for table in range(len(self._layers))]

    def _saved_table(self, table):
        if not self._is_exchanged[table]:
            return self.by_table[table].table
        ranks = range(self.plan.num_ranks)
        parts = [part_of_rank(self.plan, table, self._layers[table], rank) for rank in ranks]
        own = self.by_table.get(table)
        return DistributedTable(tuple(parts), None if own is None else own.table)

    def lookup(self, tables, forms, dtype="float32"):
        """Reads the rows of the inputs of a layer.

        Args:
            tables: List of integers: in which table of the plan each input is looked up.
            forms: List of `RaggedForm`, one an input.
            dtype: As in `keras_sparse.ops.lookup`. Defaults to `"float32"`, which rows must be that
                are weighted and not pooled.

        Returns:
            List of tensors of that dtype: the rows or pooled rows of each input.
        """
        rows = [None] * len(forms)
        for is_exchanged in (False, True):
            places = [i for i, t in enumerate(tables) if self._is_exchanged[t] == is_exchanged]
            if not places:
                continue
            lookup = self._lookup(is_exchanged)
            some = self._read(
                lookup, [tables[i] for i in places], [forms[i] for i in places], dtype
            )
            for i, each in zip(places, some, strict=True):
                rows[i] = each
        return rows

    def can_join(self, tables, forms):
        """Returns whether `lookup_joined` takes inputs as they are."""
        places = {self._is_exchanged[table] for table in tables}
        return len(places) == 1 and all(
            form.row_splits is not None or (form.weights is None and not form.has_gaps)
            for form in forms
        )

    def lookup_joined(self, tables, forms, dtype):
        """Reads the rows of the inputs of a layer side by side into one tensor.

        Args:
            tables, forms, dtype: As of `lookup`.

        Returns:
            Tensor of that dtype, of shape `(number of bags, sum of widths)`.
        """
        lookup = self._lookup(self._is_exchanged[tables[0]])
        return lookup(tables, *self._arguments(tables, forms), joined=True, dtype=dtype)

    def _lookup(self, is_exchanged):
        if self._of_ranks and is_for_saved_model():
            return self._lookup_saved
        return self.exchange.lookup if is_exchanged else self._lookup_here

    def exchange_samples(self, places, forms):
        """Reads the vectors of all samples for some inputs, and gives each rank those of its own.

        Args:
            places: List of integers: the inputs whose tables this rank has a part of.
            forms: List of `RaggedForm`, one for each of these.

        Returns:
            List of float32 tensors: the vectors of this rank's samples, one an input of the plan.
        """
        tables = [self.plan.input_table_map[i] for i in places]
        ids = [form.ids for form in forms]
        if self.samples is not None:
            self._refuse_saved_model()
            for i, form in zip(places, forms, strict=True):
                form.ids = self.samples.ids_in_range(i, form.ids)
        vectors = self._read(self._lookup_here, tables, forms) if forms else []
        if self.samples is None:
            return vectors
        placeholder = self.placeholder if self._is_any_trained() else None
        are_stored = all(form.weights is None or form.row_splits is not None for form in forms)
        return self.samples.exchange(ids, vectors, are_stored, placeholder)

    def _read(self, lookup, tables, forms, dtype="float32"):
        rows = lookup(tables, *self._arguments(tables, forms), dtype=dtype)
        return [_weighted(*each) for each in zip(rows, forms, strict=True)]

    def _arguments(self, tables, forms):
        """Returns ids, row_splits, weights and combiners for a lookup."""
        pooled = [form.row_splits is not None for form in forms]
        combiners = [self._layers[table].combiner for table in tables]
        return (
            [form.ids for form in forms],
            [form.row_splits for form in forms],
            [form.weights if pools else None for form, pools in zip(forms, pooled, strict=True)],
            [each if pools else None for each, pools in zip(combiners, pooled, strict=True)],
        )

    def _lookup_here(self, tables, *inputs, **form):
        return native.lookup([self.by_table[table] for table in tables], *inputs, **form)

    def _lookup_saved(self, tables, *inputs, **form):
        saved = [self._of_ranks[table].saved_table for table in tables]
        return saved_lookup(saved, *inputs, **{"joined": False, **form})

    def _refuse_saved_model(self):
        if is_for_saved_model():
            raise NotImplementedError(
                "A SavedModel of a layer with dp_input=False must be written by one process, as "
                "each rank has other inputs. Save the model on all ranks by "
                "`keras_sparse.saving.save_checkpoint`, load that in a process of its own, with "
                "storage for all rows, and export there. Received: a layer over "
                f"{self.plan.num_ranks} ranks"
            )


def _weighted(rows, form):
    """Multiplies rows by the weights of their ids, if there are any and no pooling has done so."""
    if form.weights is None or form.row_splits is not None:
        return rows
    return rows * form.weights[:, tf.newaxis]


def part_of_rank(plan, table, layer, rank):
    """Returns the `TablePart` that a rank has of a table of a plan, or `None` for nothing.

    Args:
        plan: `Plan`.
        table: Integer: its place in the plan.
        layer: `Embedding` with the options of the table.
        rank: Integer.
    """
    spec, here = plan.tables[table], plan.slice_of(table, rank)
    if here is None:
        return None
    by_rows = plan.placements[table].kind == "row_wise" and plan.num_ranks > 1
    return TablePart(
        spec.name,
        layer.input_dim,
        layer.output_dim,
        here.first_column,
        here.num_columns,
        rank if by_rows else 0,
        plan.num_ranks if by_rows else 1,
    )
