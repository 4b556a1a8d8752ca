import pathlib
import types
from typing import Any

import keras
import numpy as np

from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.tables.keyed_arrays import as_keys
from keras_sparse.tables.keyed_arrays import check_range
from keras_sparse.utils import checks


class TensorBoard(keras.callbacks.TensorBoard):
    """Writes TensorBoard logs as Keras' callback does, also for models with tables.

    `histogram_freq` writes histograms of a sample of the rows of each table. `embeddings_freq`
    writes rows and labels for the projector, which reads them from `log_dir`. On several ranks,
    each rank writes the rows that it owns: give each rank a `log_dir` of its own, or pass the
    callback on rank 0 alone.

    Args:
        log_dir: Folder of the event files. Defaults to `"logs"`.
        table_rows: Integer. Largest number of rows of a table in a histogram and, without `labels`,
            in the projector. A static table is sampled at equal distances. A dynamic table gives
            the rows that `export` yields first, which are rows of the first tier. Defaults to
            10,000.
        labels: Dict from the name of a layer, the name of a table in a layer, or the path of a
            table to a dict from keys to labels. The projector shows these rows of the table, and
            samples of the other tables labelled by their keys. Defaults to `None`: samples of all
            tables.
        **kwargs: `histogram_freq`, `write_graph`, `write_images`, `write_steps_per_second`,
            `update_freq`, `profile_batch` and `embeddings_freq` of `keras.callbacks.TensorBoard`.
            Use `labels` instead of its `embeddings_metadata`.

    Raises:
        TypeError: `labels` is not a dict of dicts.
        ValueError: `embeddings_metadata` is given. When training begins, if `labels` names no layer
            or table of the model, or an id outside a static table.

    Example:
    >>> import tempfile
    >>> callback = keras_sparse.callbacks.TensorBoard(
    ...     tempfile.mkdtemp(), histogram_freq=1, embeddings_freq=1, labels={"words": {3: "sun"}}
    ... )
    """

    samples_tables = True  # or it would be refused
    _model: Any

    def __init__(self, log_dir="logs", table_rows=10_000, labels=None, **kwargs):
        if kwargs.get("embeddings_metadata") is not None:
            raise ValueError(
                "`embeddings_metadata` must be left out: tables are labelled by key. Pass "
                '`labels={"layer": {key: "label"}}`. Received: '
                f"embeddings_metadata={kwargs['embeddings_metadata']!r}"
            )
        super().__init__(log_dir, **kwargs)
        self.table_rows = checks.positive(table_rows, "table_rows")
        self.labels = {} if labels is None else labels
        if not isinstance(self.labels, dict) or not all(
            isinstance(each, dict) for each in self.labels.values()
        ):
            raise TypeError(
                '`labels` must be a dict of dicts, {"layer": {key: "label"}}. Received: '
                f"labels={labels!r}"
            )

    def on_train_begin(self, logs=None):
        tables = tables_of(self.model)
        names = {name for table in tables for name in _names_of(table)}
        for layer in self.model._flatten_layers():  # also of tables on other ranks
            names |= {*getattr(getattr(layer, "templates", None), "names", ())}
        if unknown := sorted(self.labels.keys() - names):
            raise ValueError(
                f"`labels` must name layers or tables of the model: {sorted(names)}. Received: "
                f"{unknown}"
            )
        for table in tables:
            for name in _names_of(table) & self.labels.keys():
                check_range(as_keys(list(self.labels[name])), table.whole_shape()[0], table.path)
        super().on_train_begin(logs)

    def _log_weights(self, epoch):
        with self._train_writer.as_default():
            for table in tables_of(self.model):
                _, rows = self._sample(table)
                if len(rows) > 0:
                    self.summary.histogram(f"{table.path}/histogram", rows, step=epoch)
        model = self._model
        others = [each for each in model.weights if not isinstance(each, EmbeddingVariable)]
        self._model = types.SimpleNamespace(layers=[types.SimpleNamespace(weights=others)])
        try:
            super()._log_weights(epoch)
        finally:
            self._model = model

    def _configure_embeddings(self):
        """Nothing yet: the rows to be shown are written with their configuration."""

    def _log_embeddings(self, epoch):
        folder = pathlib.Path(self._log_write_dir)
        folder.mkdir(parents=True, exist_ok=True)
        config = []
        for table in tables_of(self.model):
            keys, rows, labels = self._labelled(table)
            file = table.path.replace("/", "_")
            np.savetxt(folder / f"{file}_rows.tsv", rows, fmt="%.6g", delimiter="\t")
            lines = [f"{key}\t{label}" for key, label in zip(keys, labels, strict=True)]
            text = "\n".join(["key\tlabel", *lines, ""])
            (folder / f"{file}_labels.tsv").write_text(text, encoding="utf-8")
            config.append(
                f'embeddings {{\n  tensor_name: "{table.path}"\n  tensor_path: "{file}_rows.tsv"\n'
                f'  metadata_path: "{file}_labels.tsv"\n}}\n'
            )
        (folder / "projector_config.pbtxt").write_text("".join(config), encoding="utf-8")

    def _labelled(self, table):
        """Returns the keys, rows and labels of a table that the projector shows."""
        found = next((self.labels[n] for n in _names_of(table) if n in self.labels), None)
        if found is None:
            keys, rows = self._sample(table)
            return keys, rows, keys
        keys = as_keys(list(found))
        rows = table.find(keys)
        keys, rows = keys[rows.exist], rows.rows[rows.exist]
        labels = [str(found[key]).replace("\t", " ").replace("\n", " ") for key in keys.tolist()]
        return keys, rows, labels

    def _sample(self, table):
        """Returns keys and rows of at most `table_rows`."""
        if not table.is_dynamic:
            number = min(self.table_rows, table.input_dim)
            local = np.linspace(0, table.input_dim - 1, number).astype(np.int64)
            keys = local if table.part is None else table.part.global_ids(local)
            return keys, table.find(keys).rows
        keys, records = next(table.export(self.table_rows), (np.zeros(0, np.int64), None))
        if records is None:
            return keys, np.zeros((0, table.output_dim), np.float32)
        return keys[: self.table_rows], records[: self.table_rows, : table.output_dim]


def _names_of(table):
    """Returns the table's own name, that of the layer that has it, and its path."""
    return {table.path, *table.path.split("/")[-2:]}
