"""Environment switches: all of them in one table, and the one place that reads them.

docs/environment.md is :func:`markdown`; a test keeps the two alike.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vknn.errors import VknnError


@dataclass(frozen=True)
class Switch:
    """An environment variable: ``values`` it takes, what it does without one, what it means."""

    name: str
    values: str
    default: str
    meaning: str


SWITCHES = (
    Switch(
        "VKNN_DEVICE",
        "`auto`, `vulkan`, `vulkan:1`, `uuid:...`, `pci:0000:3b:00.0`, part of a name, `numpy` or "
        "`cpu`",
        "`auto`",
        "The device that `auto` stands for. `vknn devices` lists those there are; `numpy` and "
        "`cpu` are the reference, in NumPy.",
    ),
    Switch(
        "VKNN_DEBUG",
        "`0` to `4`",
        "`0`",
        "Prints to stderr: 1 what ran where and for how long, 2 plans, 3 each dispatch, "
        "4 statistics of the values. Each level includes the lower ones. Gives layers' names to "
        "[other profilers](profilers.md), too.",
    ),
    Switch(
        "VKNN_VALIDATE",
        "`0`, `1`, `2`",
        "`0`",
        "1 switches on the Vulkan validation layer (Debian: vulkan-validationlayers); any warning "
        "or error is raised as `ValidationError`, and buffers start out filled with NaN. "
        "2 adds synchronization validation: hazards between dispatches.",
    ),
    Switch(
        "VKNN_DISABLE",
        "comma-separated names, see below",
        "nothing",
        "Switches parts off, to find out which one is at fault.",
    ),
    Switch(
        "VKNN_TIMEOUT",
        "seconds",
        "`300`",
        "How long a submit may take on the device before `DeviceTimeoutError`; where it is set, "
        "also how long a whole run may take, loops and layers on the host among it, before "
        "`RunTimeoutError`.",
    ),
    Switch(
        "VKNN_MEMORY_LIMIT",
        "bytes, or text such as `500MB` or `2GiB`",
        "three quarters of what is free",
        "How much memory a network may take, on the device or with NumPy, before "
        "`OutOfMemoryError`. What is free is asked when a network is compiled.",
    ),
    Switch(
        "VKNN_NULL_DEVICE",
        "`0`, `1`",
        "`0`",
        "1 allows devices that compute nothing (a driver without its GPU, for looking at plans and "
        "compiled code), by index or a name; `auto` never takes them.",
    ),
    Switch(
        "VKNN_CACHE_DIR",
        "a directory",
        "the user's cache directory",
        "Where pipelines, compiled shaders and tuning results are kept.",
    ),
    Switch(
        "VKNN_RUNNER",
        "a file",
        "none",
        "The C library that runs bundles (`libvknn_run.so`), for `vknn.bundle.Runner`.",
    ),
)

#: What VKNN_DISABLE can name: abilities of the device, parts of lowering, passes by name.
PARTS = {
    "texel": "reads through texel buffers (storage buffers only)",
    "fp16": "16-bit storage and arithmetic; precisions fp16 and bf16 become fp32",
    "int64": "64-bit integers in shaders",
    "subgroup": "all subgroup operations",
    "shuffle": "kernels with subgroup shuffles",
    "dot": "dot products (of quantized integers; of float16 with sums in float32)",
    "timestamps": "GPU timestamps",
    "unified": "mapping device memory; all transfers are staged",
    "copy-queue": "a second queue that copies beside computing (streams on discrete GPUs)",
    "pipeline-cache": "the pipeline cache on disk",
    "precompile": "compiling pipelines on several cores before the first run (llvmpipe)",
    "threads": "opening the device beside loading, making pipelines on several cores, and long "
    "steps of the host in a thread of their own (which timeouts do not wait for)",
    "aliasing": "sharing memory between tensors whose lifetimes do not overlap",
    "side-by-side": "running commands that do not need each other between the same barriers (GPUs)",
    "concat": "writing straight into the result of a concatenation (its inputs are copied there)",
    "layouts": "choosing layouts for the whole graph (each operator takes its own cheapest)",
    "winograd": "Winograd convolutions",
    "shared": "products in blocks of shared memory (GPUs)",
    "cooperative": "products by cooperative matrices (GPUs, precision fp16)",
    "stacking": "products of one tensor with several matrices as one dispatch (GPUs)",
    "gates": "squeeze-and-excitation layers as one dispatch (GPUs)",
    "heads": "ends of classifiers (mean, layer, softmax) as one dispatch (GPUs)",
    "separable": "a depthwise convolution and one of a tap behind it as one dispatch (GPUs)",
    "expanded": "a convolution of one tap and a depthwise one behind it as one dispatch (GPUs)",
    "split-k": "convolutions of few pixels by several workgroups a tile, each a part of k (GPUs)",
    "inverted": "inverted residual blocks (MobileNet v2) as one dispatch (GPUs)",
    "normalized": "a product and the LayerNormalization of its rows as one dispatch (GPUs)",
    "scaled": "a product with a gate as part of the convolution of one tap behind it (GPUs)",
    "tuning": "choices that `vknn tune` measured (kernels are chosen by estimate)",
    "dead-code": "pass: removing nodes that nobody needs",
    "constant-folding": "pass: computing constant parts of the graph beforehand",
    "identities": "pass: removing nodes that change nothing",
    "common-subexpressions": "pass: computing equal nodes once",
    "activations": "pass: recognising activations written as several ops",
    "transposes": "pass: cancelling transposes",
    "dilations": "pass: convolutions between space-to-batch and batch-to-space as dilated ones",
    "padding": "pass: padding as part of the convolution behind it",
    "batch-norm": "pass: batch normalization and scales as part of the weights",
    "integers": "pass: operators between DequantizeLinear and QuantizeLinear as integer kernels",
    "quantized-shifts": "pass: constants added to quantized data as part of what reads them",
    "fusion": "pass: elementwise ops as part of the kernel before them",
}

#: Those of an opened device, which everybody has who uses it.
ABILITIES = frozenset(
    (
        *("texel", "fp16", "int64", "subgroup", "shuffle", "dot", "timestamps"),
        *("unified", "copy-queue", "pipeline-cache", "precompile", "threads"),
    )
)

#: How names begin that switch off one thing of many, which `vknn bisect` tells.
SINGLE = {
    "kernel:": "`kernel:Conv/winograd43` a kernel of an operator, as `vknn profile` shows them; "
    "`kernel:Conv` all of them, so that the host computes it",
    "tuned:": "`tuned:5f0a91c2` a choice that `vknn tune` made",
}


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


@dataclass(frozen=True)
class Environment:
    """The switches, parsed."""

    device: str = "auto"
    debug: int = 0
    validate: int = 0
    disabled: frozenset[str] = frozenset()
    timeout: float = 300.0
    memory_limit: int | None = None
    cache_dir: Path | None = None
    null_device: bool = False

    def cache_path(self) -> Path:
        """The directory of all caches (not made yet)."""
        if self.cache_dir is not None:
            return self.cache_dir
        import platformdirs  # 10 ms that most imports of vknn need not pay

        return Path(platformdirs.user_cache_dir("vknn", appauthor=False))


def read(variables: Mapping[str, str] | None = None) -> Environment:
    """The switches as they stand now; raises VknnError for a value that makes no sense."""
    variables = os.environ if variables is None else variables
    cache_dir = variables.get("VKNN_CACHE_DIR", "").strip()
    return Environment(
        device=variables.get("VKNN_DEVICE", "").strip() or "auto",
        debug=_level(variables, "VKNN_DEBUG", 4),
        validate=_level(variables, "VKNN_VALIDATE", 2),
        disabled=_disabled(variables),
        timeout=_seconds(variables),
        memory_limit=_memory_limit(variables),
        cache_dir=Path(cache_dir).expanduser() if cache_dir else None,
        null_device=_level(variables, "VKNN_NULL_DEVICE", 1) == 1,
    )


def parts(given: str | Iterable[str], what: str) -> frozenset[str]:
    """Names of :data:`PARTS`: several, or text with commas between them. ``what``: who gave them.

    Raises VknnError for names that are not known and for what holds no names.
    """
    several = given.split(",") if isinstance(given, str) else given
    listed = list(several) if isinstance(several, Iterable) else [several]
    if strange := [name for name in listed if not isinstance(name, str)]:
        raise VknnError(f"{what} takes names of parts, not {strange[0]!r}; () switches none off")
    names = frozenset(name.strip() for name in listed if name.strip())
    if unknown := sorted(n for n in names if n not in PARTS and not n.startswith(tuple(SINGLE))):
        known = ", ".join([*PARTS, *(f"{front}..." for front in SINGLE)])
        raise VknnError(f"{what} names {', '.join(unknown)}; known are {known}")
    return names


def device() -> str:
    """VKNN_DEVICE, "auto" where it is not set."""
    return read().device


def disabled() -> frozenset[str]:
    """VKNN_DISABLE."""
    return read().disabled


def memory_limit(given: int | str | None = None) -> int | None:
    """A session's ``memory_limit`` in bytes, or where it is None VKNN_MEMORY_LIMIT."""
    own = read().memory_limit
    return own if given is None else nbytes(given, "memory_limit")


def run_timeout() -> float | None:
    """VKNN_TIMEOUT, None where it is not set: then it holds for each submit alone."""
    return read().timeout if os.environ.get("VKNN_TIMEOUT", "").strip() else None


def runner() -> Path | None:
    """VKNN_RUNNER."""
    text = os.environ.get("VKNN_RUNNER", "").strip()
    return Path(text).expanduser() if text else None


def debug() -> int:
    """VKNN_DEBUG."""
    return read().debug


def _level(variables: Mapping[str, str], name: str, highest: int) -> int:
    text = variables.get(name, "").strip() or "0"
    if not text.isdecimal() or int(text) > highest:
        raise VknnError(f"{name}={text!r}: expected a number from 0 to {highest}")
    return int(text)


def _disabled(variables: Mapping[str, str]) -> frozenset[str]:
    return parts(variables.get("VKNN_DISABLE", ""), "VKNN_DISABLE")


def _seconds(variables: Mapping[str, str]) -> float:
    text = variables.get("VKNN_TIMEOUT", "").strip()
    if not text:
        return Environment.timeout
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds < 1e9:
        raise VknnError(f"VKNN_TIMEOUT={text!r}: expected a number of seconds above 0")
    return seconds


def _memory_limit(variables: Mapping[str, str]) -> int | None:
    text = variables.get("VKNN_MEMORY_LIMIT", "").strip()
    return nbytes(text, "VKNN_MEMORY_LIMIT") if text else None


def nbytes(given: int | str, what: str) -> int:
    """Bytes: a number of them, or text such as "500MB" or "1.5GiB". ``what``: who gave them.

    Raises VknnError for anything else.
    """
    match = re.fullmatch(r"([\d.]+)\s*([kmg]i?)?b?", str(given).strip(), re.IGNORECASE)
    try:
        size = float(match[1]) * _UNITS[(match[2] or "").lower()] if match else -1.0
    except ValueError:
        size = -1.0
    if isinstance(given, bool) or not 1 <= size < 1 << 62:
        raise VknnError(f"{what}={given!r}: expected a number of bytes, such as 2000000 or 2GB")
    return int(size)


def markdown() -> str:
    """docs/environment.md."""
    lines = [
        "# Environment switches",
        "",
        "<!-- Made by tools/environment_table.py from src/vknn/environment.py. -->",
        "",
        "| variable | values | default | meaning |",
        "|---|---|---|---|",
        *(f"| `{s.name}` | {s.values} | {s.default} | {s.meaning} |" for s in SWITCHES),
        "",
        "`VKNN_DISABLE` takes these names:",
        "",
        "| name | switches off |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in PARTS.items()),
        *(f"| `{front}...` | {meaning} |" for front, meaning in SINGLE.items()),
    ]
    return "\n".join(lines) + "\n"
