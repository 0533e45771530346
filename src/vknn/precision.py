"""Precisions of a session: how floats are stored on the device, and what they are multiplied in."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vknn.errors import VknnError
from vknn.json_file import read_json
from vknn.lowering.kit.layer_precisions import REST, LayerPrecisions
from vknn.runtime import Device

PRECISIONS = ("fp32", "fp16", "bf16")
ARITHMETICS = ("fp32", "fp16")
#: Share of a tensor's own range that errors may add up to over a whole network, by precision
#: and arithmetic. Roundings to bfloat16 are eight times as large as those to float16.
CUMULATIVE = {
    ("fp32", "fp32"): 1e-4,
    ("fp16", "fp32"): 2e-2,
    ("fp16", "fp16"): 4e-2,
    ("bf16", "fp32"): 8 * 2e-2,
}
#: A precision of all layers, precisions of single ones by their names, or a JSON file of these.
Precision = str | os.PathLike[str] | Mapping[str, str]
#: Names and patterns of layers in one mapping, and bytes of its file, at most.
MOST_LAYERS = 1 << 16
MOST_BYTES = 1 << 24
_warned_without_half = False


@dataclass(frozen=True)
class ChosenPrecision:
    """A precision that was asked for, checked.

    ``name``: that of what takes 16 bits, or "fp32" where nothing does. ``layers``: precisions by
    the names of layers, as given; empty where all have the same.
    """

    name: str
    layers: Mapping[str, str] = field(default_factory=dict)

    @property
    def given(self) -> str | dict[str, str]:
        """The argument that asks for the same, without any file."""
        return dict(self.layers) or self.name

    def for_layers(self) -> LayerPrecisions | None:
        """The rules by which lowering tells layers apart; None where all have the same."""
        return LayerPrecisions(self.layers) if self.layers else None

    def text(self, most: int = MOST_LAYERS) -> str:
        """Text that says it in words, with the names of at most so many layers."""
        rest = self.layers.get(REST, self.name)
        others = [name for name, p in self.layers.items() if name != REST and p != rest]
        if not others:
            return rest
        names = ", ".join(others) if len(others) <= most else f"{len(others)} layers"
        return f"{rest}, but {self.layers[others[0]]} in {names}"


def chosen_precision(precision: Precision, arithmetic: str = "fp32") -> ChosenPrecision:
    """The precision that is asked for; raises VknnError where it is none that there is."""
    if isinstance(precision, str) and precision in PRECISIONS:
        chosen = ChosenPrecision(precision)
    elif isinstance(precision, Mapping):
        chosen = _by_layer(precision, "precision")
    elif isinstance(precision, os.PathLike) or names_file(precision):
        chosen = _by_layer(read_json(Path(precision), MOST_BYTES), str(precision))
    else:
        known = ", ".join(map(repr, PRECISIONS))
        raise VknnError(
            f"precision {precision!r} is not supported; use {known}, a mapping from layers to "
            "these, or a .json file of one"
        )
    _check_arithmetic(chosen.name, arithmetic)
    return chosen


def names_file(precision: object) -> bool:
    """True for text that is the name of a file of precisions: it ends in .json."""
    return isinstance(precision, str) and precision.lower().endswith(".json")


def check_uniform(precision: object, what: str) -> None:
    """Check that a precision is one of all layers, for tools under which layers change."""
    if not isinstance(precision, str) or precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise VknnError(f"vknn {what} takes one precision for all layers: {known}")


def _by_layer(rules: object, where: str) -> ChosenPrecision:
    """The precisions of a mapping that is anybody's."""
    if not isinstance(rules, Mapping):
        raise VknnError(f"{where}: expected an object of layers and their precisions")
    if not rules or len(rules) > MOST_LAYERS:
        raise VknnError(f"{where}: has {len(rules)} layers, not from 1 to {MOST_LAYERS}")
    for name, value in rules.items():
        if not isinstance(name, str) or not isinstance(value, str) or value not in PRECISIONS:
            known = ", ".join(map(repr, PRECISIONS))
            raise VknnError(f"{where}: layer {name!r:.80} has {value!r:.80}, none of {known}")
    narrow = sorted({value for value in rules.values() if value != "fp32"})
    if len(narrow) > 1:
        raise VknnError(f"{where}: layers in fp16 and in bf16 do not go together; take one of them")
    if REST not in rules and "fp32" not in rules.values():
        raise VknnError(
            f"{where}: all layers that it names are in {narrow[0]}; say what the others are in, "
            f'as in {{"{REST}": "fp32", ...}}'
        )
    rest = rules.get(REST, narrow[0] if narrow else "fp16")
    whole = {**{name: str(value) for name, value in rules.items()}, REST: str(rest)}
    used = [value for value in whole.values() if value != "fp32"]
    return ChosenPrecision(used[0] if used else "fp32", whole)


def _check_arithmetic(precision: str, arithmetic: str) -> None:
    if arithmetic not in ARITHMETICS:
        known = " or ".join(map(repr, ARITHMETICS))
        raise VknnError(f"arithmetic {arithmetic!r} is not supported; use {known}")
    if arithmetic == "fp16" and precision != "fp16":
        raise VknnError("arithmetic='fp16' is for what is stored so: it needs precision='fp16'")


def usable_precision(precision: str, device: Device | None, disabled: frozenset[str]) -> str:
    """The precision that a session gets; raises VknnError where the device has no 16 bits."""
    global _warned_without_half
    if precision == "fp32" or device is None:
        return "fp32"
    if "fp16" in disabled:
        if not _warned_without_half:
            _warned_without_half = True
            warnings.warn(
                f"fp16 is disabled: precision={precision!r} becomes 'fp32'",
                RuntimeWarning,
                stacklevel=3,
            )
        return "fp32"
    if "fp16_storage" not in device.limits.features:
        raise VknnError(
            f"{device.name} has no 16-bit storage (storageBuffer16BitAccess), which "
            f"precision={precision!r} needs; use precision='fp32' or another device"
        )
    return precision


def usable_arithmetic(arithmetic: str, precision: str, device: Device | None) -> str:
    """The arithmetic that a session gets; raises VknnError where the device has no float16's."""
    if precision == "fp32" or device is None or arithmetic == "fp32":
        return "fp32"
    if "fp16_arithmetic" not in device.limits.features:
        raise VknnError(
            f"{device.name} has no 16-bit arithmetic (shaderFloat16), which arithmetic='fp16' "
            "needs; use arithmetic='fp32' (precision='fp16' may stay) or another device"
        )
    return arithmetic
