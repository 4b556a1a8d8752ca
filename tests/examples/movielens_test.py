import os
import re
import subprocess

import keras
import numpy as np
import pytest

import forks
import movielens
import movielens_plot


@pytest.mark.parametrize(
    ("labels", "scores", "area"),
    [
        ([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4], 1.0),
        ([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], 0.0),
        ([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], 0.75),
        ([0, 1, 1], [0.5, 0.5, 0.9], 0.75),
        ([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], 0.5),
    ],
)
def test_area_under_curve_is_the_share_of_pairs_in_order(labels, scores, area):
    assert movielens.area_under_curve(np.array(labels), np.array(scores)) == area


def test_log_loss_agrees_with_keras():
    labels, probabilities = np.array([1.0, 0.0, 1.0]), np.array([0.5, 0.25, 1.0])
    received = movielens.log_loss(labels, probabilities)
    np.testing.assert_allclose(received, (np.log(2) + np.log(4 / 3)) / 3)
    expected = keras.losses.binary_crossentropy(labels, probabilities)
    np.testing.assert_allclose(received, expected, atol=1e-6)
    # A sure mistake has a finite loss.
    assert movielens.log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-np.log(1e-7))


def test_refuses_to_train_for_no_epochs(capsys):
    with pytest.raises(SystemExit):
        movielens.parse_arguments(["--epochs", "0"])
    assert "--epochs must be at least 1. Received: --epochs 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "stdout", "words"),
    [
        (0, "MovieLens-100K\nAUC 0.5\n", r"saved one gave: AUC 0\.9\. Received: AUC 0\.5"),
        (1, "", r"must load model\.keras\. Received:\nOSError: no space left"),
    ],
)
def test_says_how_the_second_process_failed(status, stdout, words, monkeypatch):
    options = movielens.parse_arguments(["--size", "100k"])
    done = subprocess.CompletedProcess([], status, stdout, "OSError: no space left")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    with pytest.raises(RuntimeError, match=words):
        movielens.check_second_process(options, "model.keras", "AUC 0.9")


def test_draws_a_picture_of_one_epoch(tmp_path):
    history = {"loss": [0.4], "val_loss": [0.3], "auc": [0.8], "val_auc": [0.9]}
    stats = {"user": {"rows": 6040, "bytes": 10**6}, "gender": {"rows": 2, "bytes": 400}}
    movielens_plot.save_picture(tmp_path / "picture.png", "Clicks", history, 1, stats)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow("starts processes")
def test_the_whole_script_runs_on_the_small_data_set(tmp_path, examples_folder):
    command = [*forks.python(), examples_folder / "movielens.py", "--size", "100k"]
    command += ["--epochs", "1", "--output", tmp_path]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"^AUC 0\.8\d+, log-loss 0\.\d+$", done.stdout, re.M))) == 1
    assert {path.name for path in tmp_path.iterdir()} == {
        "movielens-100k.keras",
        "movielens-100k.png",
    }
    assert str(tmp_path / "movielens-100k.png") in done.stdout
