import json
import re

import pytest

from keras_sparse.distribute import TableSpec
from keras_sparse.distribute.planner.table_file import read_tables


def written(tmp_path, content):
    path = tmp_path / "tables.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_tables(tmp_path):
    tables = [
        {"name": "users", "rows": 1000, "width": 16, "combiner": "sum", "hotness": [1, 20]},
        {"name": "queries", "rows": None, "width": 8, "num_slots": 0, "first_tier_bytes": 10**6},
    ]
    assert read_tables(written(tmp_path, tables), num_slots=2) == [
        TableSpec("users", 1000, 16, "sum", (1, 20), 2),
        TableSpec("queries", None, 8, first_tier_bytes=10**6),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[{'name'", "Tables must be JSON. Received: .*tables.json: Expecting property name.*line"),
        ("", "Tables must be JSON"),
        ({"users": {"rows": 10}}, 'must be a JSON list of objects such as {"name": "users"'),
        ([], r"and not empty. Received: .*tables.json: \[\]"),
        (["users"], r"a JSON object with the keys \('name', .*: tables\[0\] = \"users\""),
        (
            [{"name": "a", "rows": 1, "width": 1}, {"name": "b", "width": 1}],
            r"the key 'rows'; give null for a table of any keys. Received: .*tables\[1\] with",
        ),
        ([{"rows": 1, "width": 1}], "the key 'name'. Received"),
        (
            [{"name": "a", "rows": 1, "width": 1, "hotnes": 1}],
            r"; take 'hotness'. Received: .*tables\[0\] with the key 'hotnes'",
        ),
        (
            [{"name": "a", "rows": 1, "width": 1, "zzz": 1}],
            r"one of \(.*\). Received: .* key 'zzz'",
        ),
        ([{"name": "a", "rows": -1, "width": 1}], r"rows=-1, of .*tables.json: tables\[0\]"),
    ],
)
def test_says_where_a_file_is_wrong(tmp_path, content, words):
    with pytest.raises(ValueError, match=words.replace("{", re.escape("{"))):
        read_tables(written(tmp_path, content))


def test_says_where_a_type_is_wrong(tmp_path):
    words = r"`rows` must be an integer. .*'10' of type str, of .*tables.json: tables\[0\]"
    with pytest.raises(TypeError, match=words):
        read_tables(written(tmp_path, [{"name": "a", "rows": "10", "width": 1}]))


def test_a_file_must_be_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tables(tmp_path / "none.json")
