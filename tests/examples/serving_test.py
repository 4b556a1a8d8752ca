"""A server that follows a training: it answers over HTTP while deltas come."""

import contextlib
import shutil
import threading

import numpy as np
import pytest
import waitress.server

import keras_sparse
import serving


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    serving.main(["train", str(folder := tmp_path_factory.mktemp("run")), "--steps", "100"])
    return folder


@pytest.fixture
def server(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    storage = keras_sparse.StorageOption(
        "DRAM_SSDHASH", storage_path=str(tmp_path / "rows"), storage_size=["256KB", "100MB"]
    )
    started = serving.Server(tmp_path / "run", storage, every=0.1)
    yield started
    started.follower.stop()


def run_until_closed(http):
    # A socket that is closed while the loop waits for it is the loop's end.
    with contextlib.suppress(OSError):
        http.run()


def test_answers_over_http_and_follows(server, tmp_path, capsys):
    http = waitress.server.create_server(serving.make_app(server), host="127.0.0.1", port=0)
    threading.Thread(target=run_until_closed, args=[http], daemon=True).start()
    address = f"http://127.0.0.1:{http.effective_port}"
    try:
        serving.ask(address, 20)
        assert "20 requests: median" in (printed := capsys.readouterr().out)
        assert '"step": 100' in printed
        serving.main(["train", str(tmp_path / "run"), "--steps", "200"])
        for _ in range(100):
            if server.follower.step == 200:
                break
            threading.Event().wait(0.1)
        serving.ask(address, 20)
        assert '"step": 200' in capsys.readouterr().out
        with pytest.raises(OSError, match="HTTP Error 4"):
            serving.urllib.request.urlopen(f"{address}/score", b"no JSON")
    finally:
        http.close()


def test_keeps_what_is_asked_for_most_in_memory(server):
    words, _ = serving.draw(np.random.default_rng(0), 64)
    before = server.score(words)
    assert server.warm() > 0
    hits = server.table.stats()["tiers"]["DRAM"]["hits"]
    hottest = [word for word, _ in server.asked.most_common(8)]
    server.score([hottest])
    assert server.table.stats()["tiers"]["DRAM"]["hits"] == hits + 8
    assert server.score(words) == before


def test_says_what_a_request_must_be(server):
    client = serving.make_app(server).test_client()
    assert client.post("/score", json={"words": [list(range(8))]}).json["step"] == 100
    for words in ([[1, 2]], [1, 2], "words", [[0.5] * 8], []):
        answer = client.post("/score", json={"words": words})
        assert answer.status_code == 400
        assert "`words` must be a list of lists of 8 integers" in answer.json["error"]
    assert client.post("/score", json={}).status_code == 400


def test_waits_for_the_training_and_says_where_no_server_is(tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"No server answers at http://127\.0\.0\.1:9 yet"):
        serving.ask("http://127.0.0.1:9", 1)
    waiting = threading.Thread(target=serving.wait_for_training, args=[tmp_path], daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    (tmp_path / "step-000000100").mkdir()
    waiting.join(10)
    assert not waiting.is_alive()
    assert f"Waiting for the first checkpoint in '{tmp_path}'" in capsys.readouterr().out
