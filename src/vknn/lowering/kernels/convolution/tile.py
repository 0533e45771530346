"""Register tiles of the convolution kernels: what a lane computes."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.plan import DeviceLimits

#: Subgroup size of the SHUFFLE variants of the kernels.
SHUFFLE_LANES = 8


@dataclass(frozen=True)
class RegisterTile:
    """A lane's tile: ``pixels`` (or Winograd tiles) times ``block`` vec4s of output channels.

    ``lanes``: of a workgroup. ``shuffle``: the lanes of a subgroup load the weights of a step
    together and pass them round by subgroup shuffles.
    """

    pixels: int
    block: int
    lanes: int
    shuffle: bool = False

    @property
    def loads(self) -> float:
        """Loads of vec4s in a step (a vec4 of input channels of a tap)."""
        return self.pixels + (self.block / 2 if self.shuffle else 4 * self.block)

    @property
    def products(self) -> int:
        """Multiplications of vec4s in a step."""
        return 4 * self.pixels * self.block

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of the kernels."""
        return {"TN": self.pixels, "TM": self.block}


def can_shuffle(limits: DeviceLimits, lanes: int) -> bool:
    """True where a workgroup of ``lanes`` is one subgroup as the SHUFFLE variants need it."""
    able = "subgroup_shuffle" in limits.features
    return able and limits.subgroup_size == SHUFFLE_LANES == lanes
