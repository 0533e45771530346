"""Inputs that are kept: what a search found says how it is found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faulty_layer import SHAPE, write_faulty_model

from vknn.cli import main
from vknn.crosscheck import search
from vknn.crosscheck.npz_files import load_npz

pytestmark = pytest.mark.device


def kept(model: Path, folder: Path, *options: object) -> list[dict[str, Any]]:
    """The index of what ``vknn verify`` keeps of a network that is wrong for large numbers."""
    argv = ["verify", str(model), "--keep-worst", str(folder), "--json", *map(str, options)]
    assert main(argv) == 1
    return json.loads((folder / "worst.json").read_text())  # type: ignore[no-any-return]


def test_a_search_is_found_again_from_its_folder(tmp_path: Path) -> None:
    model, folder = write_faulty_model(tmp_path, "large"), tmp_path / "worst"
    index = kept(model, folder, "--search-steps", 40, "--seed", 3)
    assert index and all(entry["search"] == {"seed": 3, "steps": 40} for entry in index)
    how = index[0]["search"]
    again = search(model, seed=how["seed"], steps=how["steps"])
    assert {entry["record"] for entry in index} == set(again.inputs)
    for entry in index:
        found = load_npz(folder / entry["file"])
        np.testing.assert_array_equal(found["data"], again.inputs[entry["record"]]["data"])


def test_without_a_search_there_is_none(tmp_path: Path) -> None:
    model, folder = write_faulty_model(tmp_path, "large"), tmp_path / "worst"
    np.save(tmp_path / "large.npy", np.full((2, *SHAPE), 150.0, np.float32))
    index = kept(model, folder, "--input", tmp_path / "large.npy")
    assert index and all(set(entry) == {"file", "record", "worst_of"} for entry in index)
