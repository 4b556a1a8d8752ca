import pytest

from keras_sparse.__main__ import main


@pytest.mark.slow("starts processes")
def test_a_failure_is_status_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["install-horovod", "--force"]) == 1
    assert "must be a folder to write into" in capsys.readouterr().err
