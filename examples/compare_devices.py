"""Comparison of what two devices compute from the same arrays; names the first layer that is wrong.

    python examples/compare_devices.py tools/demo_model/digits.param --shape image=1,8,8 \\
        --devices vulkan numpy

Prints for each output the largest difference between the two devices, as it is and relative to the
largest value, and where it is. Then vknn.verify runs every operator of the network on the device
and with NumPy: it prints one line that says that all agree within what rounding explains, or which
layer is the first that does not, and by how much. The exit status is 1 if one does not.

Arrays come from --inputs, a .npz; without it they are random.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import vknn
from inputs import add_feed_arguments, add_model_arguments, feeds_for


def numbers(output: Any) -> np.ndarray:
    """An output as an array; a Core ML classifier gives a dictionary of probabilities."""
    return np.array(list(output.values()) if isinstance(output, dict) else output)


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """The largest difference between two arrays in words."""
    if one.shape != other.shape:  # of a detector: another number of objects
        return f"shapes {one.shape} and {other.shape}"
    if one.dtype.kind not in "fiub" or one.size == 0:
        return "equal" if np.array_equal(one, other) else f"{one} and {other}"
    wide, wider = one.astype(np.float64), other.astype(np.float64)
    apart = np.abs(wide - wider)
    worst = np.unravel_index(np.argmax(apart), apart.shape)
    largest = float(np.abs(wider).max()) or 1.0
    place = ", ".join(str(int(i)) for i in worst)
    return (
        f"{apart[worst]:.2g} ({apart[worst] / largest:.2g} of the largest value) at [{place}]: "
        f"{wide[worst]:.7g} and {wider[worst]:.7g}"
    )


def check(session: vknn.Session, options: argparse.Namespace) -> bool:
    """Comparison of every operator with NumPy, printed; True where all agree."""
    report = vknn.verify(session, feeds_for(session, options), tolerance=options.tolerance)
    print(report.summary())
    row = report.first_failure
    if row is not None:
        print(f"first wrong layer: {row.layer}, output {row.output} {row.type}")
    if options.table:
        print(report)
    return report.ok


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_arguments(parser)
    parser.add_argument(
        "--devices",
        nargs=2,
        default=["vulkan", "numpy"],
        metavar=("ONE", "OTHER"),
        help="vulkan, vulkan:1, numpy, part of a name: see vknn devices (vulkan numpy)",
    )
    parser.add_argument("--precision", choices=["fp32", "fp16"], default="fp32", help="(fp32)")
    parser.add_argument(
        "--tolerance", type=float, help="error allowed to an operator; default: what rounding does"
    )
    parser.add_argument("--table", action="store_true", help="print the errors of every operator")
    add_feed_arguments(parser)
    options = parser.parse_args(arguments)
    results, agree = [], True
    for device in options.devices:
        with vknn.Session(
            options.model, options.weights, device=device, precision=options.precision
        ) as session:
            results.append(session.run(feeds_for(session, options)))
            if session.device is not None:  # NumPy itself is what operators are held against
                print(f"{device}: ", end="")
                agree = check(session, options) and agree
    one, other = results
    print(f"largest differences between {options.devices[0]} and {options.devices[1]}")
    for name in one:
        print(f"  {name}: {difference(numbers(one[name]), numbers(other[name]))}")
    return 0 if agree else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
