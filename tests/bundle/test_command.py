"""``vknn bundle``: what it says of a bundle, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bundle.rebuilt import (
    DIGITS,
    digits_with_example,
    rebuilt,
    relu,
    with_field,
)

from vknn.bundle import Bundle, schema
from vknn.cli.main import main

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_with_example(tmp_path_factory.mktemp("net"))


def test_a_bundle_is_described(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(net), "--json", "--layers"]) == 0
    document = json.loads(capsys.readouterr().out)
    bundle = Bundle.open(net)
    assert (document["sha256"], document["bytes"]) == (bundle.sha256, net.stat().st_size)
    assert sum(document["sections"].values()) < document["bytes"]
    assert {kernel for module in document["modules"] for kernel in module["kernels"]} >= {
        "convolution/conv"
    }
    generic, llvmpipe = document["plans"]
    assert (generic["target"], llvmpipe["target"]) == ("generic", "llvmpipe")
    assert generic["inputs"][0]["name"] == "image" and generic["inputs"][0]["dtype"] == "float32"
    assert generic["example"] and generic["weights"] == bundle.plans[0].weight_bytes
    assert "convolution1+relu1" in [layer["layers"] for layer in generic["layers"]]
    assert sum(layer["flops"] for layer in generic["layers"]) == generic["work"]
    assert main(["bundle", str(net), "--plan", "1", "--layers"]) == 0
    text = capsys.readouterr().out
    assert bundle.sha256 in text and "plan 1: digits, llvmpipe, fp32" in text
    assert "convolution1+relu1" in text and "plan 0" not in text


def test_wrong_uses_are_told(net: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    changed = bytearray(net.read_bytes())
    changed[-1] ^= 1
    (tmp_path / "bad.vkb").write_bytes(changed)
    for arguments, text in [
        ([str(net), "--plan", "2"], "there is no plan 2; it has 2"),
        ([str(net), "--runner", "x"], "--runner needs --check"),
        ([str(DIGITS)], "this is no bundle"),
        ([str(tmp_path / "bad.vkb")], "SHA-256"),
    ]:
        assert main(["bundle", *arguments]) == 2
        assert text in capsys.readouterr().err


def test_texts_of_a_bundle_cannot_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = Bundle.of(relu())
    strings = bundle.sections["strings"].tobytes()
    path = tmp_path / "net.vkb"
    evil = Bundle.of(rebuilt(bundle, {"strings": strings + b"\x1b[2Jevil[bold]\0"}))
    path.write_bytes(with_field(evil, schema.PORT, "name", len(strings)))
    assert main(["bundle", str(path)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "evil[bold]" in text
