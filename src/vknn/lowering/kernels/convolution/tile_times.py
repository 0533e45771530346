"""Times of convolutions on GPUs, by what compilers make of the kernels.

Instructions of a lane, waits of a wave (of a load each) and waves in flight are those of RADV's
machine code for RDNA 2, as ``vknn profile --static --isa`` on the null device navi21 shows it
(docs/null-devices.md). Other GPUs load by vector instructions what RADV loads into scalar
registers, and for places they are taken to have other units.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.machine import Machine

#: Instructions for the place of a pixel under a tap: in a loop over taps and channels; in a loop
#: over taps alone, but for a lane's only one, which is no more than the round; in one around one
#: over channels.
_PLACE, _PLACE_ALONE, _PLACE_AROUND = 9.0, 7.0, 8.5
#: Instructions of a round beside products and loads.
_ROUND = 8.0
_SCALAR_ROUND = 6.0
#: More of them in rounds of so many vec4s, whose weights lie further apart than a load reaches.
_LONG, _LONG_ROUND = 8, 5.0
#: Waits of a round for loads, and on GPUs with scalar loads besides; for four vec4s of weights and
#: one of pixels, whose products are too few to be done while others come.
_SCALAR_WAITS, _MORE_WAITS = 1.32, {(1, 4): 1.5}
#: Instructions of a part, and of joining a vec4 of its sums.
_PART, _JOINED = 30.0, 6.0
#: Part of an epilogue's instructions that multiply and add: by these alone times are modelled where
#: no machine code is read.
COUNTED_EPILOGUE = 0.5
#: Pixels and vec4s of output channels of a lane -> waves that a SIMD has registers for: AMD's,
#: Adreno's, and of 32 lanes NVIDIA's (Apple's driver does not tell).
_HELD = {
    (1, 1): (16, 16, 11),
    (2, 2): (12, 12, 8),
    (1, 4): (16, 16, 9),
    (4, 2): (8, 8, 6),
    (2, 4): (10, 10, 8),
    (4, 4): (5, 6, 4),
}
#: The same of Adreno's with places of pixels under taps.
_HELD_PLACES = {(2, 2): 10}
#: The same of NVIDIA's where lanes have parts of the channels.
_HELD_PARTS = {(1, 1): 9, (2, 2): 6, (1, 4): 7}


@dataclass(frozen=True)
class TileWork:
    """Work of a lane of convolution/conv.comp with a tile of ``pixels`` x ``block`` vec4s of sums.

    ``steps``: vec4s of input channels of all taps; ``together``: of a round (STEPS), 0 for one loop
    over taps and channels, -1 for one over taps; ``alone``: of those that fill no round and are one
    each. ``pointwise``: without taps. ``waiting``: part of
    a round's waits that is left, 1 where nothing is loaded ahead. ``converts``: factors take
    instructions to become float32. ``product``: a multiply-add, by one in float32.
    ``epilogue``: instructions for an element of the result. ``parts``: of the
    channels, which other lanes have and a workgroup joins.
    ``rows``: vec4s of weights in a step for a vec4 of output channels. ``taken``: instructions that
    make a factor of a vec4 of x, by RADV's code and for its GPUs; ``unpacked``: those that make
    factors of the weights of a vec4 of output channels. ``finish``: those for a vec4 of the result
    besides. ``scaled``: those of a step that multiply x by a scale.
    """

    pixels: int
    block: int
    steps: int
    together: int
    pointwise: bool
    waiting: float = 1.0
    converts: bool = False
    product: float = 1.0
    epilogue: float = 0.0
    parts: int = 1
    rows: int = 4
    taken: float = 0.0
    unpacked: float = 0.0
    finish: float = 0.0
    scaled: float = 0.0
    alone: int = 0

    def time(self, machine: Machine, lanes: int) -> float:
        """Microseconds of so many lanes."""
        rounds = (self.steps - self.alone) / max(1, self.together) + self.alone
        instructions = self.steps * self._step(machine) + self._outside(machine)
        if machine.scalar:
            instructions += (_SCALAR_ROUND + _LONG_ROUND * (self.together >= _LONG)) * rounds
            each = _MORE_WAITS.get((self.pixels, self.block), _SCALAR_WAITS)
            waits = self.waiting * each * rounds + 1.7
        else:
            instructions += _ROUND * (rounds + 1)
            waits = self.waiting * rounds + 1
        if self.parts > 1:
            instructions += _PART + _JOINED * self.parts * self.pixels * self.block
            waits += 1
        family = 0 if machine.scalar else 1 if machine.adreno else 2
        held = _HELD.get((self.pixels, self.block), (8, 8, 8))[family]
        if family == 1 and not self.pointwise:
            held = _HELD_PLACES.get((self.pixels, self.block), held)
        if family == 2 and self.parts > 1:
            held = _HELD_PARTS.get((self.pixels, self.block), held)
        return machine.on_simds(lanes, instructions, waits, machine.held(held))

    def _step(self, machine: Machine) -> float:
        """Instructions for a vec4 of input channels of a tap."""
        products = 16.0 * self.pixels * self.block * self.product
        products += self.unpacked * self.block + self.scaled
        if not machine.scalar:
            return products + self.pixels + self.rows * self.block
        products += self.taken * self.pixels
        if self.converts and self.product == 1:
            products += 16 * self.block + 4 * self.pixels
        if self.pointwise:
            return products
        if not self.together:
            return products + _PLACE * self.pixels
        # Places are moved on once a round.
        alone = self.together < 0
        places = _PLACE_ALONE if alone else _PLACE_AROUND / self.together
        return products + (places * self.pixels if self.pixels > 1 else 0.0)

    def _outside(self, machine: Machine) -> float:
        """Instructions before and after the loop."""
        sums = self.pixels * self.block
        if not machine.scalar:
            return (2.0 + 4 * COUNTED_EPILOGUE * self.epilogue) * sums
        finish = 5 + 4 * self.epilogue + self.finish
        return 40 + finish * sums + (0 if self.pointwise else 60 * self.pixels)
