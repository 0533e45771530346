"""``vknn batch-node``"""

from __future__ import annotations

import argparse
import shlex

from vknn.cli.arguments import add_json
from vknn.cli.output import write_json
from vknn.scale.ray_node import node_options


def add(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Options of ``ray start`` for this machine, to be put behind those that join a cluster."""
    options = node_options()
    if args.json:
        write_json(options.to_json())
        return
    print(shlex.join(options.arguments))
