import pytest

from keras_sparse.distribute import TableSpec


def test_knows_its_size():
    table = TableSpec("t", 100, 8, num_slots=2)
    assert table.num_elements == 800
    assert table.bytes_of(100, 8) == 4 * 3 * 800
    assert table.bytes_of(10, 3) == 4 * 3 * 30
    assert not table.is_dynamic


def test_has_no_slots_if_it_is_not_trained():
    assert TableSpec("t", 100, 8, num_slots=2, trainable=False).bytes_of(100, 8) == 3200


def test_a_dynamic_table_takes_what_its_first_tier_takes():
    table = TableSpec("keys", None, 8)
    assert table.is_dynamic
    assert table.num_elements is None
    assert table.bytes_of(None, 8) == 0
    assert TableSpec("keys", None, 8, first_tier_bytes=10**9).bytes_of(None, 8) == 10**9
    assert TableSpec("keys", None, 8, first_tier_bytes="1GB").first_tier_bytes == 10**9


@pytest.mark.parametrize("hotness", [3, [1, 2.5]])
def test_comes_back_from_its_config(hotness):
    table = TableSpec("t", None, 8, "mean", hotness, 1, first_tier_bytes=5)
    assert TableSpec.from_config(table.get_config()) == table


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": 3}, TypeError, "`name` must be a string, and not empty. Received: name=3"),
        ({"name": ""}, TypeError, "`name` must be a string, and not empty"),
        ({"rows": 0}, ValueError, "`rows` must be above 0. Received: rows=0"),
        ({"rows": 1e6}, TypeError, "`rows` must be an integer"),
        ({"width": None}, TypeError, "`width` must be an integer"),
        ({"rows": 2**50}, ValueError, "must have less than 9007199254740992 bytes"),
        ({"combiner": "max"}, ValueError, r"`combiner` must be one of \(None, 'sum'"),
        ({"hotness": -1}, ValueError, "`hotness` must not be below 0. Received: hotness=-1"),
        ({"hotness": [1, "2"]}, TypeError, r"`hotness\[1\]` must be a number"),
        ({"num_slots": -1}, ValueError, "`num_slots` must not be below 0"),
        ({"trainable": 1}, TypeError, "`trainable` must be True or False"),
        ({"first_tier_bytes": 9}, ValueError, "is for dynamic tables.*rows=10, first_tier_bytes=9"),
    ],
)
def test_refuses_what_is_no_table(arguments, error, words):
    with pytest.raises(error, match=words):
        TableSpec(**{"name": "t", "rows": 10, "width": 4, **arguments})
