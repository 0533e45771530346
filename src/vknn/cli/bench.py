"""``vknn bench``"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vknn import environment
from vknn.cli.arguments import (
    add_inputs,
    add_model,
    add_runs,
    add_signature,
    disabled,
    model_files,
    opened,
    shapes,
)
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.errors import VknnError
from vknn.named_files import temporary_folder
from vknn.profiling import Limits, bench, measure_limits
from vknn.profiling.bench import PEERS
from vknn.profiling.remembered import remember_limits
from vknn.runtime import Device, measured_speeds, open_device
from vknn.runtime.device_selection import is_host

#: Options that a measurement of the device has no use for, but for --runs and --warmup.
_OF_MODELS = (
    *("weights", "random_weights", "precision", "arithmetic", "layers", "disable", "signature"),
    *("input", "shape", "size", "resize", "mean", "std", "channels", "layout"),
    *("peer", "empty_caches"),
)
#: Where vknn and the drivers keep compiled shaders.
_CACHES = ("VKNN_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH")


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser, optional=True)
    add_signature(parser)
    add_inputs(parser, random=True)
    add_runs(parser, runs=20, warmup=3)
    parser.add_argument("--peer", choices=PEERS, help="measure this engine too, in turn")
    parser.add_argument(
        "--empty-caches", action="store_true", help="start with no compiled shaders on disk"
    )
    parser.add_argument(
        "--device-limits",
        action="store_true",
        help="measure the device in place of a model: arithmetic, memory, overheads",
    )


def run(args: argparse.Namespace) -> None:
    """Times runs and the cold start, or measures the device."""
    if args.device_limits:
        _device_limits(args)
        return
    if args.model is None:
        raise VknnError("name a model file (or --device-limits)")
    with ExitStack() as stack:
        if args.empty_caches:
            stack.enter_context(_empty_caches())
        files = stack.enter_context(model_files(args))
        with opened(args, device="numpy") as session:
            feeds, sizes = read_feeds(args, session), shapes(args, session)
        tell = stack.enter_context(progress("bench", args.json))
        result = bench(
            files.model,
            feeds,
            signature=args.signature,
            weights=files.weights,
            device=args.device,
            precision=args.precision,
            arithmetic=args.arithmetic,
            disable=disabled(args),
            runs=args.runs,
            warmup=args.warmup,
            shapes=sizes,
            seed=args.seed,
            peer=args.peer,
            progress=tell,
        )
    if args.json:
        write_json(result.to_json())
    else:
        show(result)


def _device_limits(args: argparse.Namespace) -> None:
    if args.model is not None:
        raise VknnError("--device-limits measures the device: it takes no model")
    for name in _OF_MODELS:
        if getattr(args, name) not in (None, False, [], "", "fp32"):
            raise VknnError(
                f"--device-limits measures the device: leave out --{name.replace('_', '-')}"
            )
    if is_host(args.device):
        raise VknnError("--device-limits needs a Vulkan device")
    with open_device(args.device) as device, progress("limits", args.json) as tell:
        limits = measure_limits(device, progress=tell)
        kept, reason = _remembered(device, limits)
    if reason is not None:  # the measurement is good all the same
        print(f"vknn: the limits are not remembered: {reason}", file=sys.stderr)
    if args.json:
        write_json(limits.to_json())
    else:
        show(limits)
        if kept is not None:
            show(f"plans for this device are estimated by these figures from now on ({kept})")


def _remembered(device: Device, limits: Limits) -> tuple[Path | None, VknnError | None]:
    """The file that keeps the figures for plans to come, None where they are not; or why not."""
    kept, folder = None, environment.read().cache_path()
    try:
        remember_limits(device, limits)
        if limits.speeds is not None:
            kept = measured_speeds.store(folder, device.snapshot, limits.speeds)
    except VknnError as error:
        return None, error
    return kept, None


@contextmanager
def _empty_caches() -> Iterator[None]:
    """New folders for what is compiled; the driver reads its variable when a device is opened."""
    before = {name: os.environ.get(name) for name in _CACHES}
    with temporary_folder() as folder:
        try:
            os.environ.update(dict.fromkeys(_CACHES, folder))
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
