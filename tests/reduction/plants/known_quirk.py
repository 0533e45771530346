"""Quirks that vknn is made to know: one of every driver, one of none."""

from vknn.reduction import worker
from vknn.runtime.quirks import Quirk

worker.QUIRKS = (
    Quirk("slow-int64", "64-bit integers are wrong", lambda _: True, frozenset(("int64",))),
    Quirk("other-driver", "nothing is right", lambda _: False, frozenset(("fp16_storage",))),
)
