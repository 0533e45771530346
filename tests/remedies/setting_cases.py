"""Remedies about settings: switches of the environment, precisions, what is kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.remedies.case import DEVICE, Case, Place

from vknn import environment
from vknn.precision import usable_arithmetic, usable_precision
from vknn.runtime import tuning_database

ENTRIES = {"key": tuning_database.TuningEntry("gemm", 1.0, {"gemm": 1.0})}


def stub(*features: str) -> Any:
    """As much of a device as decides about precisions."""
    return SimpleNamespace(name="stub", limits=SimpleNamespace(features=frozenset(features)))


def damaged_database(place: Place) -> Path:
    path = place.folder / "tuning.json"
    path.write_text("damaged")
    tuning_database.load(path)
    return path


def repaired_database(place: Place) -> None:
    """What ``vknn tune`` does with its results."""
    path = place.folder / "tuning.json"
    path.write_text("damaged")
    tuning_database.store(path, ENTRIES)
    assert tuning_database.load(path) == ENTRIES


def kept(folder: str) -> Callable[[Place], None]:
    def store(place: Place) -> None:
        (place.folder / "file").write_text("no folder")
        place.monkeypatch.setenv("VKNN_CACHE_DIR", str(place.folder / folder))
        cache = environment.read().cache_path()
        tuning_database.store(tuning_database.database_file(cache, DEVICE), ENTRIES)

    return store


CASES = [
    Case(
        "VKNN_TIMEOUT={}: expected a number of seconds above 0",
        lambda p: environment.read({"VKNN_TIMEOUT": "0"}),
        lambda p: environment.read({"VKNN_TIMEOUT": "0.5"}),
    ),
    Case(
        "`vknn tune` writes a new one",
        damaged_database,
        repaired_database,
        RuntimeWarning,
    ),
    Case(
        "{} cannot be kept: {}; VKNN_CACHE_DIR names another directory",
        kept("file"),
        kept("folder"),
    ),
    Case(
        "precision {} is not supported; use {}, a mapping from layers to these, or a .json file of "
        "one",
        lambda p: p.run(device="cpu", precision="fp8"),
        lambda p: [
            p.run(device="cpu", precision=each) for each in ("fp32", "fp16", "bf16", {"*": "fp32"})
        ],
    ),
    Case(
        "arithmetic {} is not supported; use {}",
        lambda p: p.run(device="cpu", precision="fp16", arithmetic="fp8"),
        lambda p: [
            p.run(device="cpu", precision="fp16", arithmetic=each) for each in ("fp32", "fp16")
        ],
    ),
    Case(
        "arithmetic='fp16' is for what is stored so: it needs precision='fp16'",
        lambda p: p.run(device="cpu", arithmetic="fp16"),
        lambda p: p.run(device="cpu", arithmetic="fp16", precision="fp16"),
    ),
    Case(
        "{} has no 16-bit storage (storageBuffer16BitAccess), which precision={} needs; "
        "use precision='fp32' or another device",
        lambda p: usable_precision("fp16", stub(), frozenset()),
        lambda p: [
            usable_precision("fp32", stub(), frozenset()),
            usable_precision("fp16", stub("fp16_storage"), frozenset()),
            usable_precision("bf16", stub("fp16_storage"), frozenset()),
        ],
    ),
    Case(
        "{} has no 16-bit arithmetic (shaderFloat16), which arithmetic='fp16' needs; "
        "use arithmetic='fp32' (precision='fp16' may stay) or another device",
        lambda p: usable_arithmetic("fp16", "fp16", stub("fp16_storage")),
        lambda p: [
            usable_arithmetic("fp32", "fp16", stub("fp16_storage")),
            usable_arithmetic("fp16", "fp16", stub("fp16_storage", "fp16_arithmetic")),
        ],
    ),
]
