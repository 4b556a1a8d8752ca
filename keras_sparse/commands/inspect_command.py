import json
import pathlib

from keras_sparse.commands.inspect_page import dtypes_text
from keras_sparse.commands.inspect_page import page_of
from keras_sparse.commands.row_summary import RowSummary
from keras_sparse.saving import verify
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.checkpoint_manifest import NAME as MANIFEST
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.keras_files.verify_file import read_headers
from keras_sparse.saving.keras_files.verify_file import read_tables
from keras_sparse.saving.table_format.chunks import read_chunks
from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.tables.packed_records import record_bytes
from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.checks import is_url
from keras_sparse.utils.progress_bar import Progress
from keras_sparse.utils.text_table import aligned


def run(options):
    """Prints what `collect` returns.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    found = collect(options.path)
    if options.verify:
        found["verified_tables"] = verify(found["path"])
    if options.html:
        with open(options.html, "w", encoding="utf-8") as file:  # before rows are read
            file.write(page_of(_with_rows(found)))
        print("\n".join([*_verified_lines(found), f"Page: {options.html}"]))
        return
    print(json.dumps(found, indent=1) if options.json else "\n".join(_lines(found)))


def collect(path):
    """Returns what a checkpoint or a file says of itself, as a dict for JSON.

    Args:
        path: String. A folder of checkpoints stands for the last one in it.
    """
    folder = pathlib.Path(path)
    if not folder.exists() and not is_url(path):
        raise FileNotFoundError(
            "Nothing is at `path`, which must be the folder of a checkpoint, a folder with some, "
            f"or a weights file. Received: path='{path}'"
        )
    if not folder.is_dir():
        return {"path": path, "kind": "weights", "tables": _of_headers(read_headers(path))}
    if (folder / MANIFEST).exists():
        return _of_checkpoint(folder)
    steps = CheckpointFolder(folder, is_cleaned=False).list()
    if not steps:
        raise FileNotFoundError(
            "`path` must be a checkpoint, a folder with checkpoints as `callbacks.Checkpoint` "
            f"names them, or a weights file. Received: path='{path}', which has no {MANIFEST} and "
            "no step-NUMBER"
        )
    saved = [{"name": each.path.name, "step": each.step} for each in steps]
    return {**_of_checkpoint(steps[-1].path), "all_in_folder": saved}


def _with_rows(found):
    """Returns what `collect` has found with what the page shows of rows and of other saves."""
    is_file = found["kind"] == "weights"
    summaries = _summaries_of_file if is_file else _summaries_of_checkpoint
    tables = [
        {**table, **more}
        for table, more in zip(found["tables"], summaries(found["path"]), strict=True)
    ]
    folder = pathlib.Path(found["path"]).parent
    saves = _bytes_written(folder / each["name"] for each in found.get("all_in_folder", ()))
    return {**found, "tables": tables, "saves": saves}


def _bytes_written(folders):
    """Returns, of each save, its name and the bytes of the files that no earlier one has."""
    written: list[tuple[str, int]] = []
    seen: set[tuple[int, int]] = set()
    for folder in folders:
        stats = [each.stat() for each in folder.rglob("*") if each.is_file()]
        new = {(each.st_dev, each.st_ino): each.st_size for each in stats}
        written.append((folder.name, sum(new[file] for file in new.keys() - seen)))
        seen |= new.keys()
    return written


def _summaries_of_file(path):
    def read(header, store):
        summary = RowSummary(header.output_dim)
        for piece in read_chunks(header, store):
            summary.add(piece)
        unit = "steps" if header.ages_clock is None else "seconds"
        return {"summary": summary, "sizes": {}, "ages": unit}

    return [more for _, more in read_tables(path, read)]


def _summaries_of_checkpoint(path):
    checkpoint = WholeCheckpoint(path)
    progress = Progress(checkpoint.num_records(), "thousand records read", 1000)  # at most
    for parts in checkpoint.tables:
        first = parts[0].part
        # A table cut by columns shows its first slice: norms are those of its columns alone.
        parts = [each for each in parts if each.part.first_column == first.first_column]
        summary = RowSummary(first.num_columns)
        sizes: dict[str, int] = {}
        for saved in parts:
            for _, file in saved.parts():
                kind = "files" if isinstance(file, RowsFile) else "segments of the SSD tier"
                name = f"rank {saved.rank}, {kind}"
                sizes[name] = sizes.get(name, 0) + file.num_rows
            for piece in saved.read_rows():
                summary.add(piece._replace(keys=saved.part.global_ids(piece.keys)))
                progress.add(len(piece.keys))
        yield {
            "summary": summary,
            "sizes": sizes,
            "ages": parts[0].table.metadata.ages,
            "columns": first.num_columns,
        }
    progress.close()


def _of_checkpoint(folder):
    checkpoint = WholeCheckpoint(folder)
    manifest = checkpoint.manifest
    manifests = (
        [manifest]
        if manifest.ranks is None
        else [manifest, *(reader.manifest for reader in checkpoint.readers)]
    )
    return {
        "path": str(checkpoint.folder),
        "kind": "checkpoint" if manifest.base is None else "delta",
        "id": manifest.id,
        "step": manifest.step,
        "ranks": len(checkpoint.readers),
        "bytes": sum(sum(each.file_bytes.values()) for each in manifests),
        "goes_on_from": None if manifest.base is None else manifest.base.path,
        "tables": [_of_parts(parts) for parts in checkpoint.tables],
    }


def _of_parts(parts):
    """What a checkpoint, not those that it goes on from, has of a table.

    Args:
        parts: List of `SavedPart`.
    """
    table, whole = parts[0].table, parts[0].part
    # Of a table cut by columns each part has all rows.
    of_rows = [each.table for each in parts if each.part.first_column == whole.first_column]
    files = [file for entry in of_rows for file in entry.parts]
    is_complete = all(
        not isinstance(entry.parts[0], RowsFile) or entry.parts[0].is_complete
        for entry in of_rows
        if entry.parts
    )
    return {
        **_of_table(whole.table, table),
        "input_dim": whole.input_dim,
        "output_dim": whole.output_dim,
        "records": sum(file.num_rows for file in files),
        "are_all_rows": is_complete,
        "erased": sum(file.erased[0] for file in files if isinstance(file, RowsFile)),
        "floats_a_row": sum(
            each.table.record_floats for each in parts if each.part.shard == whole.shard
        ),
        "bytes_a_row": sum(
            record_bytes(each.table) for each in parts if each.part.shard == whole.shard
        ),
        "files_of_ssd_tier": sum(not isinstance(file, RowsFile) for file in files),
        "parts": len(parts),
    }


def _of_headers(headers):
    return [
        {
            **_of_table(place.name, header),
            "place": place.group,
            "records": header.num_rows,
            "are_all_rows": True,
        }
        for place, header in headers
    ]


def _of_table(name, saved):
    """What a `TableEntry` and a `TableHeader` both say."""
    return {
        "name": name,
        "input_dim": saved.input_dim,
        "output_dim": saved.output_dim,
        "optimizer": saved.rule,
        "slots": list(saved.slot_names),
        "row_dtype": saved.dtypes.row,
        "slot_dtype": saved.dtypes.slots,
        "floats_a_row": saved.record_floats,
        "bytes_a_row": record_bytes(saved),
        "has_filter": saved.filter is not None,
    }


def _lines(found):
    lines = [f"{found['kind']} {found['path']}"]
    if found["kind"] != "weights":
        ranks = "" if found["ranks"] == 1 else f", saved by {found['ranks']} ranks"
        base = "" if found["goes_on_from"] is None else f", goes on from {found['goes_on_from']}"
        lines.append(f"step {found['step']:,}, {bytes_text(found['bytes'])}{ranks}{base}")
    if "all_in_folder" in found:
        names = [each["name"] for each in found["all_in_folder"]]
        lines.append(f"the last of {len(names)} in its folder, the first of which is {names[0]}")
    lines += ["", *_table_lines(found["tables"])]
    verified = _verified_lines(found)
    return [*lines, "", *verified] if verified else lines


def _verified_lines(found):
    if not (count := found.get("verified_tables")):
        return []
    tables = "1 table" if count == 1 else f"{count} tables"
    return [f"Every byte of {tables} is as it was saved."]


def _table_lines(tables):
    if not tables:
        return ["It has no table of keras_sparse."]
    cells = [("table", "records", "keys", "width", "dtype", "optimizer", "slots", "bytes", "")]
    for table in tables:
        notes = [] if table["are_all_rows"] else ["changed rows alone"]
        notes += [f"{table['erased']:,} erased"] if table.get("erased") else []
        notes += [f"{table['parts']} parts"] if table.get("parts", 1) > 1 else []
        notes += ["admission filter"] if table["has_filter"] else []
        cells.append(
            (
                table["name"],
                f"{table['records']:,}",
                "any" if table["input_dim"] is None else f"below {table['input_dim']:,}",
                str(table["output_dim"]),
                dtypes_text(table),
                table["optimizer"] or "none",
                ", ".join(table["slots"]) or "none",
                bytes_text(table["bytes_a_row"] * table["records"]),
                ", ".join(notes),
            )
        )
    return aligned(cells, "lrlrlllrl")
