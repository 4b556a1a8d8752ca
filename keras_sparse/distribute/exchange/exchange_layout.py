WIRE_DTYPES = ("float32", "float16", "bfloat16")


class ExchangeLayout:
    """The plan as native ops have it: which rank has what of the tables that ranks exchange.

    Args:
        plan: `Plan`.
        rank: Integer. This process.
        tables: List of integers: the places in the plan of the tables that are exchanged. Where one
            of them repeats, native ops take it for several tables, and `numbers_of` has no use.
        out_of_range: List of `"error"` or `"zero"`, one a table of the plan.
        max_entries: List of integers: of each of these how many entries of an id a request may have
            (see `keras_sparse.native.merge_gradients`).
        row_dtypes: List of strings, one a table of the plan: the dtypes of stored rows. Rows of
            16 bits travel as they are stored.
        wire_dtype: `"float32"`, `"float16"` or `"bfloat16"`. The dtype in which float32 rows, sums
            of rows and gradients travel.
        name: String, different for each exchange, the same on all ranks.
    """

    def __init__(self, plan, rank, tables, out_of_range, max_entries, row_dtypes, wire_dtype, name):
        self.tables = list(tables)
        self.num_ranks = plan.num_ranks
        self._number_of = {table: number for number, table in enumerate(self.tables)}
        numbers = [plan.num_ranks, rank]
        for i in self.tables:
            spec, slices = plan.tables[i], plan.placements[i].slices
            by_rows = plan.placements[i].kind == "row_wise"
            numbers += [-1 if spec.is_dynamic else spec.rows, spec.width]
            numbers += [out_of_range[i] == "zero", by_rows]
            numbers += [max_entries[i], len(slices)]
            for each in slices:
                numbers += [each.rank, each.num_columns]
        names = [plan.tables[i].name for i in self.tables]
        self.attributes = {"layout": [int(number) for number in numbers], "table_names": names}
        self.attributes["row_dtypes"] = [row_dtypes[i] for i in self.tables]
        self.attributes["wire_dtype"] = wire_dtype
        self.attributes["exchange"] = name
        # The tables of the plan that this rank has a part of, in the order of the native ops.
        self.own_tables = [i for i in self.tables if plan.slice_of(i, rank) is not None]
        self.own_dims = [plan.slice_of(i, rank).num_columns for i in self.own_tables]
        self.output_dims = [plan.tables[i].width for i in self.tables]

    def numbers_of(self, tables):
        """Returns the numbers by which the native ops know tables of the plan."""
        return [self._number_of[table] for table in tables]
