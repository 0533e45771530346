"""``vknn bench``"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from vknn.cli.arguments import (
    add_inputs,
    add_model,
    add_runs,
    disabled,
    model_files,
    opened,
    shapes,
)
from vknn.cli.feeds import read_feeds
from vknn.cli.output import progress, show, write_json
from vknn.profiling import bench
from vknn.profiling.bench import PEERS

#: Where vknn and the drivers keep compiled shaders.
_CACHES = ("VKNN_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH")


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_inputs(parser, random=True)
    add_runs(parser, runs=20, warmup=3)
    parser.add_argument("--peer", choices=PEERS, help="measure this engine too, in turn")
    parser.add_argument(
        "--empty-caches", action="store_true", help="start with no compiled shaders on disk"
    )


def run(args: argparse.Namespace) -> None:
    """Times runs and the cold start."""
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
            weights=files.weights,
            device=args.device,
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


@contextmanager
def _empty_caches() -> Iterator[None]:
    """New folders for what is compiled; the driver reads its variable when a device is opened."""
    before = {name: os.environ.get(name) for name in _CACHES}
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        try:
            os.environ.update(dict.fromkeys(_CACHES, folder))
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
