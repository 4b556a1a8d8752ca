import argparse
import importlib
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import forks
from examples.dlrm import __main__ as dlrm
from examples.dlrm.split_binary import Part
from ranks import needs_horovod
from ranks import run_ranks

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorials/dlrm.md").read_text()
ON_RANKS = "(?:horovodrun|python -m keras_sparse launch)"
SMALL = ["--embedding_dim", "4", "--bottom", "8", "--top", "8", "--batch_size", "100"]
SMALL += ["--optimizer", "lazy_adam", "--learning_rate", "0.01"]


def commands_of(page):
    """The arguments of the commands on a page, or a part of it."""
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL)).replace("\\\n", "")
    return [
        shlex.split(line)[3:]
        for line in re.findall(rf"^(?:{ON_RANKS} .*)?(python -m examples\.dlrm.*)", blocks, re.M)
    ]


@pytest.fixture(scope="module")
def few(make_features, tmp_path_factory):
    """Features of few clicks: 3,000 to train on and 500 to test."""
    return make_features(tmp_path_factory.mktemp("few"), 3500, 200)[1]


def train(features, *options):
    return dlrm.main(["train", "--data", str(features), *SMALL, *map(str, options)])


@pytest.mark.slow("example")
def test_the_first_commands_of_the_page_come_close_to_the_best_possible_auc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    best, _, metrics = map(dlrm.main, commands_of(PAGE)[:3])
    assert best - 0.005 < metrics["auc"] < best + 0.001
    shown = [float(each) for each in re.findall(r"AUC (?:above )?(0\.\d+)", PAGE)[:2]]
    assert shown == pytest.approx([best, metrics["auc"]], abs=1e-3)  # rounding may differ


def test_the_page_has_no_option_that_there_is_not():
    commands = commands_of(PAGE)
    assert len(commands) == 12
    for command, *arguments in commands:
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"examples.dlrm.{command}").add_options(parser)
        parser.parse_args(arguments)
        assert parser.format_help()


def test_help_of_each_command_says_how_it_is_called(capsys):
    for words in ([], *([command] for command in dlrm.COMMANDS)):
        with pytest.raises(SystemExit):
            dlrm.main([*words, "--help"])
        printed = capsys.readouterr().out
        assert printed.startswith(" ".join(["usage: python -m examples.dlrm", *words]))


def test_the_best_possible_auc_is_that_of_the_chances_on_the_samples_of_the_test(
    make_features, tmp_path
):
    planted, features = make_features(tmp_path, 7000, 9)
    _, _, labels = Part(features, "test").read(0, 1000)
    chances = planted.chances[-1000:]
    clicked = labels[:, 0] > 0
    exact = (chances[clicked][:, None] > chances[~clicked]).mean()  # no two chances are the same
    assert planted.last(1000).best_auc() == pytest.approx(exact, abs=1e-4)
    # The clicks are as many as these chances say, where they are low and where they are high.
    for part in np.array_split(np.argsort(planted.chances), 4):
        chances = planted.chances[part]
        deviation = np.sqrt((chances * (1 - chances)).sum())
        assert abs(planted.labels[part].sum() - chances.sum()) < 4 * deviation


def loss_of(saved_model, features):
    """What TensorFlow alone makes of the test part."""
    numerical, ids, labels = Part(features, "test").read(0, 500)
    loaded = tf.saved_model.load(str(saved_model))
    logits = loaded.serve({"numerical": tf.constant(numerical), "ids": tf.constant(ids)})
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)).numpy()


@pytest.mark.slow("example")
def test_a_run_that_goes_on_is_one_that_was_never_stopped(few, tmp_path):
    options = ("--epochs", 3, "--steps_per_epoch", 7, "--checkpoint")
    # After an epoch, and in the middle of one.
    for name, every in (("step-000000014", ()), ("step-000000020", ("--checkpoint_every", 5))):
        runs = tmp_path / name
        whole = train(few, *options, runs / "whole", *every)
        shutil.copytree(runs / "whole" / name, runs / "stopped" / name)
        assert train(few, *options, runs / "stopped", "--resume", *every) == whole
    exported = tmp_path / "served"
    arguments = *options, runs / "stopped", "--resume", "--export", exported
    with pytest.warns(match="returns without a step"):
        assert train(few, *arguments) == whole
    assert loss_of(exported, few) == pytest.approx(whole["loss"], rel=1e-5)
    with pytest.raises(ValueError, match="must be a folder without checkpoints"):
        train(few, *options, runs / "stopped")


@pytest.mark.slow("example")
def test_rows_on_an_ssd_give_the_same(few, tmp_path):
    tiers = ("--storage", "DRAM_SSDHASH", "--storage_path", tmp_path, "--first_tier", "2MB")
    assert train(few, *tiers) == train(few)


@pytest.mark.skipif(
    not tf.config.list_physical_devices("GPU"), reason="run_on_gpu.py runs it with one"
)
@pytest.mark.parametrize("storage", ["HBM", "HBM_DRAM"])
def test_rows_in_gpu_memory_give_the_same(few, storage):
    expected = train(few, "--steps_per_epoch", 8)
    tiers = ("--storage", storage, "--first_tier", "100kB")
    assert train(few, "--steps_per_epoch", 8, *tiers) == expected


@pytest.mark.slow("example")
def test_measures_reading_beside_training(few, capsys):
    rates = train(few, "--measure_reader", 2)
    assert len(rates) == 3
    printed = capsys.readouterr().out
    for name, rate in rates.items():
        assert f"{name:<28}{rate:>14,.0f} samples/s" in printed


@pytest.mark.parametrize(
    ("fraction", "option", "message"),
    [
        ("0", "--epochs=1", "`--data` must have samples to test on"),
        ("0.5", "--batch_size=999", "Received: batch_size=999, 1 ranks, 25 samples"),
        ("0.5", "--evaluate_every=0", "`evaluate_every` must be"),
        ("0.5", "--checkpoint_every=5", "`--checkpoint_every` must come with --checkpoint FOLDER"),
        ("0.5", "--resume", "`--resume` must come with --checkpoint FOLDER"),
    ],
)
def test_refuses_what_it_cannot_train_or_test_on(
    make_features, tmp_path, fraction, option, message
):
    _, features = make_features(tmp_path, 50, 9, "--test_fraction", fraction)
    with pytest.raises(ValueError, match=message):
        train(features, option)


@needs_horovod
@pytest.mark.slow("starts processes")
def test_two_ranks_give_what_one_gives(few, tmp_path, monkeypatch):
    expected = train(few)
    monkeypatch.chdir(ROOT)
    arguments = "--data", few, *SMALL, "--export", tmp_path / "served"
    status, printed = run_ranks(2, "-m", "examples.dlrm", "train", *arguments)
    assert status == 0, printed
    (numbers,) = re.findall(r"Test: loss (\S+), AUC (\S+)", printed)
    received = [float(number) for number in numbers]
    assert received == pytest.approx([expected["loss"], expected["auc"]], abs=2e-4), printed
    assert printed.count("26 tables on 2 ranks") == 1
    assert loss_of(tmp_path / "served", few) == pytest.approx(received[0], abs=1e-4)


@needs_horovod
@pytest.mark.slow("starts processes")
def test_a_launcher_starts_it(few, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    launch = [sys.executable, "-m", "keras_sparse", "launch", "--ranks", "2", *forks.python()]
    options = ["--data", few, *SMALL, "--checkpoint", tmp_path / "checkpoints", "--resume"]
    command = map(str, [*launch, "-m", "examples.dlrm", "train", *options])
    launched = subprocess.run(command, capture_output=True, text=True)
    assert launched.returncode == 0, launched.stderr
    assert "launch: the training is done, after 1 start." in launched.stdout
    (loss,) = re.findall(r"Test: loss (\S+), AUC", launched.stdout)
    assert float(loss) == pytest.approx(train(few)["loss"], abs=2e-4)
