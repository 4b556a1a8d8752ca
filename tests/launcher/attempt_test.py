import pytest

from keras_sparse.launcher import attempt
from keras_sparse.launcher.hosts import Host
from keras_sparse.launcher.reports import MARK
from ranks import needs_horovod


@needs_horovod
@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (f"[0]<stdout>:{MARK}%s\\n", ""),
        (f"[0]<stdout>:5/9 ...{MARK}%s\\n", "[0]<stdout>:5/9 ..."),
        (f"[0]<stdout>:5/9 ...\\r[0]<stdout>:{MARK}%s\\n", "[0]<stdout>:5/9 ...\r"),
        (f"[0]<stdout>:{MARK}%s\\n[7]<stdout>:text\\n", "[7]<stdout>:text\n"),
        # Horovod's own line, whose end comes later.
        (f"a line[0]<stdout>:{MARK}%s\\n\\n", "a line\n"),
    ],
)
def test_shows_lines_without_reports(printed, shown, monkeypatch, tmp_path, capfd):
    script = tmp_path / "horovodrun"
    event = '{"event": "step", "step": 7}'
    ended = "Process 1 exit with status code 3.\n"
    script.write_text(f"#!/bin/sh\nprintf '{printed % event}{ended}'\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(attempt, "HOROVODRUN", (str(script),))
    begun = attempt.Attempt([Host("localhost", 2)], ["true"])
    assert begun.wait(60)
    assert begun.last("step")["step"] == 7
    assert [rank.status for rank in begun.ranks] == [None, 3]
    assert capfd.readouterr().out == shown + ended
