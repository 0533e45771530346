"""Times the networks of a folder, each against a peer on the same device, in turn.

    python benchmarks/networks.py ../shared/benchmark/ncnn --peer ncnn
    python benchmarks/networks.py ../shared/benchmark/ncnn squeezenet resnet18 --runs 30 --json

Weights are random (He-scaled), inputs too; times include upload and download. Run it on a machine
that does nothing else: figures drift with its load, and only the ratios of one run count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.profiling import Benchmark, bench

#: Input sizes that the files do not state.
SHAPES = {
    "blazeface": {"data": (3, 128, 128)},
    "efficientnet_b0": {"data": (3, 224, 224)},
    "vision_transformer": {"input": (3, 384, 384)},
    "yolov4-tiny": {"data": (3, 416, 416)},
}


def main() -> int:
    args = _arguments()
    found = sorted(args.folder.glob("*.param"))
    chosen = [p for p in found if not args.names or p.stem in args.names]
    results: list[Benchmark] = []
    for path in chosen:
        print(f"{path.stem}...", file=sys.stderr)
        try:
            results.append(_measure(path, args))
        except VknnError as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps([json.loads(r.to_json()) for r in results], indent=2))
    else:
        Console(width=140).print(_table(results))
    return 0 if len(results) == len(chosen) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of ncnn .param files")
    parser.add_argument("names", nargs="*", help="only these networks")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--peer", choices=("ncnn",))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(path: Path, args: argparse.Namespace) -> Benchmark:
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        weights = Path(folder) / "random.bin"
        write_random_weights(path, weights)
        return bench(
            path,
            weights=weights,
            device=args.device,
            runs=args.runs,
            warmup=args.warmup,
            shapes=SHAPES.get(path.stem),
            peer=args.peer,
        )


def _table(results: list[Benchmark]) -> Table:
    device = results[0].device if results else "no device"
    table = Table(title=f"ms on {device}", title_justify="left")
    table.add_column("network")
    for name in ("min", "median", "max", "peer min", "peer median", "ratio", "difference"):
        table.add_column(name, justify="right")
    for name in ("start", "memory MiB"):
        table.add_column(name, justify="right")
    for result in results:
        ours, peer = result.ours, result.peer
        row = [f"{1e3 * t:.1f}" for t in (ours.least, ours.median, ours.most)]
        row += [f"{1e3 * t:.1f}" for t in (peer.least, peer.median)] if peer else ["", ""]
        row += [f"{result.ratio:.2f}"] if result.ratio is not None else [""]
        row += [f"{result.difference:.1e}"] if result.difference is not None else [""]
        row += [f"{1e3 * sum(result.cold.values()):.0f}"]
        row += [f"{result.memory / 2**20:.1f}"] if result.memory is not None else [""]
        table.add_row(Path(result.model).stem, *row)
    return table


if __name__ == "__main__":
    sys.exit(main())
