"""Faults of kernels, chosen by PLANT in the environment: its weights are 1.5 times what they are.

"kernel:LABEL": the kernel of this label. "layer:NAME": whatever kernel computes this layer.
"unless:A,B": all kernels of convolutions, unless A and B
are both switched off. "texel": those that read through texel buffers. "fp16": those on tensors of
16 bits. "always": all of them.
"""

import os

from vknn import environment
from vknn.lowering.kit.emitter import Emitter

PLANT = os.environ["PLANT"]
RIGHT = Emitter.weight


def is_wrong(emitter: Emitter) -> bool:
    kind, _, what = PLANT.partition(":")
    if kind == "layer":
        return what in emitter.nodes
    if kind == "kernel":
        return emitter.label == what
    if not emitter.label.startswith("Conv "):
        return False
    if kind == "texel":
        return emitter.problem.limits.preferred_access != "storage"
    if kind == "fp16":
        return emitter.half
    return kind == "always" or not set(what.split(",")) <= environment.disabled()


def weight(self, key, make, *sources, single=False):
    if is_wrong(self):
        return RIGHT(self, f"{key} wrong", lambda: make() * 1.5, *sources, single=single)
    return RIGHT(self, key, make, *sources, single=single)


Emitter.weight = weight
