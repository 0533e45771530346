"""Parts of a cross-check over many inputs: rows, answers, what a search tried."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from vknn.crosscheck.comparison import ArrayComparison
from vknn.crosscheck.row import VerifyRow
from vknn.printable import one_line


@dataclass(frozen=True)
class WorstInput:
    """The largest error of an operator over all inputs. ``record``: the name of its input."""

    record: str
    comparison: ArrayComparison


@dataclass(frozen=True)
class DataRow:
    """One output of one operator over all inputs.

    Attributes:
        layer: Name of the layer in the model file.
        op: Name of the operator.
        placement: "vulkan" or "host".
        output: Name of the value.
        records: Inputs for which it was compared.
        failed: Those among them for which it was out of tolerance.
        median: Median over the inputs of its largest error by itself, as a multiple of what is
            allowed; None on the host.
        isolated: The worst by itself; None on the host.
        cumulative: The worst behind the operators before it; None where it was not compared.
    """

    layer: str
    op: str
    placement: str
    output: str
    records: int
    failed: int
    median: float | None
    isolated: WorstInput | None
    cumulative: WorstInput | None

    @property
    def ok(self) -> bool:
        """True where it was within its tolerances for all inputs."""
        return not self.failed

    @property
    def worst_row(self) -> VerifyRow:
        """The row of a report that has the worst of both comparisons."""
        alone = None if self.isolated is None else self.isolated.comparison
        after = None if self.cumulative is None else self.cumulative.comparison
        return VerifyRow(
            self.output, self.layer, self.op, self.placement, self.output, "", alone, after
        )


@dataclass(frozen=True)
class DataAgreement:
    """Agreement of answers over all inputs whose answers could be compared.

    Attributes:
        records: How many these are.
        top1: Share of the examples of the first output of scores with the same best class; None
            of models without one.
        top5: Share of the reference's five best classes that are among the device's.
        boxes: Boxes of the reference; None of models without any.
        matched: Those among them that the device has.
        extra: Boxes of the device that the reference does not have.
        mean_iou: Of the pairs.
        differing: Names of the inputs for which the best class or the number of boxes differs, at
            most ten.
    """

    records: int
    top1: float | None = None
    top5: float | None = None
    boxes: int | None = None
    matched: int | None = None
    extra: int | None = None
    mean_iou: float | None = None
    differing: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The agreement in a line."""
        if self.boxes is not None:
            text = (
                f"{self.matched} of {self.boxes} boxes matched, {self.extra} more on the device, "
                f"IoU {self.mean_iou:.4f} on average"
            )
        else:
            text = f"top-1 agreement {self.top1:.2%}, top-5 {self.top5:.2%}"
        names = ", ".join(map(one_line, self.differing))
        return f"{text} over {self.records} inputs" + (f"; differing: {names}" if names else "")


@dataclass(frozen=True)
class SearchTrace:
    """Search for worst inputs: what was tried.

    Attributes:
        seed: The seed; with it and as many steps the same inputs are tried again.
        steps: Inputs that were tried, the first ones among them.
        seconds: How long it took.
        out_of_range: Inputs that were left out, as the reference came near to overflow.
        climbed: Step and largest error, as a multiple of what is allowed, of each input that was
            worse than all before it.
    """

    seed: int
    steps: int
    seconds: float
    out_of_range: int
    climbed: tuple[tuple[int, float], ...] = ()

    def table(self) -> Table:
        """The steps that found a larger error than all before them, as a rich table."""
        table = Table()
        for name in ("step", "largest error, of its limit"):
            table.add_column(name, justify="right")
        for step, error in self.climbed:
            table.add_row(str(step), f"{error:.3g}")
        return table

    def __str__(self) -> str:
        """The search in a line."""
        best = self.climbed[-1] if self.climbed else (0, 0.0)
        return (
            f"search: seed {self.seed}, {self.steps} steps in {self.seconds:.1f} s, "
            f"{self.out_of_range} inputs near to overflow left out; the largest error is "
            f"{best[1]:.3g} of its limit, at step {best[0]}"
        )
