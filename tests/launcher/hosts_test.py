import pathlib

import pytest

from keras_sparse.launcher import hosts
from keras_sparse.launcher.hosts import Host


def test_reads_hosts_in_a_line_and_one_a_line():
    expected = [Host("alpha", 2), Host("10.0.0.7", 1)]
    assert hosts.parse_hosts("alpha:2,10.0.0.7:1") == expected
    assert hosts.parse_hosts("\nalpha:2\n10.0.0.7:1\n") == expected
    assert hosts.text_of(expected) == "alpha:2,10.0.0.7:1"
    assert hosts.parse_hosts("") == []


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("alpha", "'alpha'"),
        ("alpha:0", "'alpha:0'"),
        ("alpha:2;beta:2", "'alpha:2;beta:2'"),
        ("alpha:1,alpha:2", "'alpha' twice"),
    ],
)
def test_other_text_is_an_error_that_says_what_came(text, received):
    with pytest.raises(ValueError, match=f"Hosts must be given .* Received: {received}"):
        hosts.parse_hosts(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#!/bin/sh\nexit 3\n", "non-zero exit status 3"),
        ("#!/bin/sh\necho alpha\n", "Received: 'alpha'"),
        (None, "No such file"),
    ],
)
def test_a_script_that_fails_is_an_error(text, error, tmp_path):
    script = tmp_path / "hosts.sh"
    if text is not None:
        script.write_text(text)
        script.chmod(0o755)
    with pytest.raises(hosts.NoHostsError, match=error):
        hosts.hosts_of_script(script)


def test_ranks_fill_hosts_in_their_order():
    both = [Host("alpha", 2), Host("beta", 4)]
    assert hosts.take(both, 3) == [Host("alpha", 2), Host("beta", 1)]
    assert hosts.take(both, 2) == [Host("alpha", 2)]
    assert hosts.take(both, 9) == both
    assert hosts.host_of_ranks(hosts.take(both, 3)) == ["alpha", "alpha", "beta"]


def test_hosts_that_no_network_knows_do_not_answer():
    here = Host("localhost", 2)
    nowhere = [Host("no-such-host.invalid", 2), Host("a..b", 2)]
    assert hosts.answering([*nowhere, here]) == [here]


def test_the_launcher_needs_no_tensorflow():
    for path in pathlib.Path(hosts.__file__).parent.glob("*.py"):
        assert "tensorflow" not in path.read_text().replace("TensorFlow", ""), path
