"""Register tiles of the convolution kernels: what a lane computes."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kernels.quantized.few_bits import WHOLE
from vknn.lowering.kernels.quantized.requantize import DOTS, NUMBERS
from vknn.plan import DeviceLimits

#: Subgroup size of the SHUFFLE variants of the kernels.
SHUFFLE_LANES = 8
#: vec4s of sums from which on a lane has no registers left for rounds of loads.
_MOST_SUMS = 16


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


@dataclass(frozen=True)
class ConvTile(RegisterTile):
    """A lane's tile of pixels and output channels of one group."""

    weight_format: str = NUMBERS  # of quantized ops (kernels/quantized/requantize.py)
    float_dots: bool = False  # products of float16 added in pairs
    parts: int = 1  # of the input channels, shared out among a workgroup's subgroups
    bits: int = WHOLE  # of a weight

    @property
    def run(self) -> int:
        """k of a column of weights that lie beside each other in memory."""
        return 4 if self.float_dots else 1

    @property
    def has_few_bits(self) -> bool:
        """True where weights of 4 or 2 bits are held as such."""
        return self.bits < WHOLE

    @property
    def in_quads(self) -> bool:
        """True where four weights along k lie in one integer, or more."""
        return bool(self.weight_format) or self.has_few_bits

    @property
    def name(self) -> str:
        """The candidate's name."""
        variant = "shuffle" if self.shuffle else DOTS if self.float_dots else self.weight_format
        if self.has_few_bits:
            variant += f"{self.bits}"
        suffix = f"-{variant}" if variant else ""
        prefix = f"split{self.parts}-" if self.parts > 1 else ""
        return f"{prefix}tile{self.pixels}x{self.block}{suffix}"


def round_steps(channels: int, tile: ConvTile, joined: int = 0) -> int:
    """Specialization constant STEPS on GPUs: vec4s of channels whose loads stand together.

    As many as keep four loads in flight and lie before eight vec4s of sums at most (code grows
    with them); twice as many with dot products, which take a half or a quarter of the time. No more
    than there are ``channels`` (vec4s of a group), and than sums may wait to be joined (``joined``,
    0: any number). Of these the number that leaves the fewest rounds: a vec4 that fills no round is
    a round of its own. -1, a loop over taps alone, where there is only one vec4; 0, one loop over
    all, for 16 vec4s of sums, which leave no registers to a tap's places.
    """
    sums = tile.pixels * tile.block
    dots = tile.float_dots or tile.weight_format == DOTS
    if sums >= _MOST_SUMS:
        return 0
    if channels == 1:
        return -1
    most = min(4 // tile.pixels, max(1, 8 // sums)) * (2 if dots else 1)
    most = min(most, channels)
    if joined and not dots:
        most = min(most, joined)
    return min(range(most, 0, -1), key=lambda steps: channels // steps + channels % steps)
