"""Row of a cross-check."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.crosscheck.comparison import ArrayComparison


@dataclass(frozen=True)
class VerifyRow:
    """One output of one operator.

    Attributes:
        node: Name of the node in the graph.
        layer: Name of the layer in the model file.
        op: Name of the operator.
        placement: "vulkan" or "host".
        output: Name of the value.
        type: Its dtype and shape as text.
        isolated: The operator alone, fed the reference's inputs; None on the host, which is the
            reference.
        cumulative: The value after everything before it ran on the device too; None where the
            roundings of float16 decide what there is to compare.
    """

    node: str
    layer: str
    op: str
    placement: str
    output: str
    type: str
    isolated: ArrayComparison | None
    cumulative: ArrayComparison | None

    @property
    def ok(self) -> bool:
        """True where both comparisons are within their tolerances."""
        return all(c is None or c.ok for c in (self.isolated, self.cumulative))

    @property
    def shown(self) -> ArrayComparison | None:
        """The comparison that tells most, by itself unless only the cumulative one fails."""
        alone, after = self.isolated, self.cumulative
        if alone is None or (alone.ok and after is not None and not after.ok):
            return after
        return alone
