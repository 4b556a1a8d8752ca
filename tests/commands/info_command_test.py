import json
import re

import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.__main__ import main
from keras_sparse.commands import info_command


def test_says_what_is_installed_and_built(capsys):
    assert main(["info"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    values = {name: value.strip() for name, value in lines.items()}
    assert values["keras_sparse"] == keras_sparse.__version__
    assert values["tensorflow"] == tf.__version__
    assert "DRAM" in values["storage types"].split(", ")
    assert values["memory"].endswith("B")


def test_storage_types_are_those_that_can_be_made(tmp_path, capsys):
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == info_command.collect().keys()
    for each in keras_sparse.StorageType:
        path = tmp_path if len(each.tiers) > 1 else None
        try:
            keras_sparse.StorageOption(each, path)
        except NotImplementedError:
            assert each.value not in found["storage types"]
        else:
            assert each.value in found["storage types"]


def test_says_what_is_missing_and_how_to_get_it(monkeypatch, capsys):
    missing = {"horovod": None, "built with cuda": None, "lower tiers": [], "gpus": 0}
    monkeypatch.setattr(info_command, "collect", lambda: missing)
    assert main(["info"]) == 0
    out = re.sub(" {3,}", "  ", capsys.readouterr().out)
    assert "not installed; for several ranks: python -m keras_sparse install-horovod" in out
    assert "lower tiers  none" in out
    assert "built with cuda  no, it is a build without CUDA" in out
    assert "gpus  none that TensorFlow sees" in out


@pytest.mark.parametrize(
    ("version", "architectures", "found", "gpus"),
    [("", "", None, []), ("13.0.88", "75-real;90a-real;120", "13.0.88", ["75", "90a", "120"])],
)
def test_says_which_gpus_it_was_built_for(version, architectures, found, gpus, monkeypatch):
    monkeypatch.setattr(info_command._build_info, "CUDA_VERSION", version)
    monkeypatch.setattr(info_command._build_info, "CUDA_ARCHITECTURES", architectures)
    collected = info_command.collect()
    assert (collected["built with cuda"], collected["built for gpus"]) == (found, gpus)
