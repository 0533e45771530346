"""A case of an error with a remedy, and the surroundings in which it is tried."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.runtime.snapshot import Snapshot

#: The options of a command that computes on the host.
HOST = ("--device", "cpu")
DEVICE = Snapshot(0, "llvmpipe", "cpu", driver=13, driver_name="llvmpipe")


class Place:
    """Where a case runs: a folder with a small model, and what changes the surroundings."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.model = write_small_model(folder)
        self.feeds = {"data": np.ones(SHAPE, np.float32)}

    def command(self, *argv: object) -> str:
        """What a command prints; its error message is raised."""
        code = main([str(a) for a in argv])
        out, err = self.capsys.readouterr()
        if code:
            raise vknn.VknnError(err)
        return out

    def run(self, **options: Any) -> dict[str, Any]:
        """Runs the model in a session of its own."""
        with vknn.Session(self.model, **options) as opened:
            return opened.run(self.feeds)

    def set(self, owner: Any, **values: Any) -> None:
        """Replaces attributes until the call is over."""
        for name, value in values.items():
            self.monkeypatch.setattr(owner, name, value)


@dataclass(frozen=True)
class Case:
    """An error's text, a call that ends in it, and the call as the message advises it.

    ``needs``: the marker of what the machine must have.
    """

    text: str
    fails: Callable[[Place], object]
    helps: Callable[[Place], object]
    error: type[Exception] = vknn.VknnError
    needs: str = ""


def core_ml(place: Place, kind: str = "net.mlmodel") -> Path:
    made = model([layer("softmax", "x", "y")], {"x": (4,)})
    path = place.folder / kind
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def without(module: str) -> Callable[[Place], None]:
    """Makes imports of a module fail."""
    return lambda place: place.monkeypatch.setitem(sys.modules, module, None)


def on_the_reference(place: Place) -> None:
    place.run(device="cpu")


def raised(error: Exception) -> Callable[[Place], None]:
    def fails(_: Place) -> None:
        raise error

    return fails
