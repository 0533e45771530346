"""Mutators of Core ML files: fields of the messages, by the schema."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping

from fuzzing.protobuf import mutate
from vknn.formats.coreml import coreml_pb2 as pb

Files = Mapping[str, bytes]


def mutated(
    rng: random.Random, files: Files, other: Callable[[], Files], count: int
) -> tuple[Files, list[str]]:
    """The file with ``count`` fields changed, and what was done."""
    model = pb.Model.FromString(files[".mlmodel"])
    donor = functools.cache(lambda: pb.Model.FromString(other()[".mlmodel"]))
    done = [mutate(rng, model, donor) for _ in range(count)]
    return {".mlmodel": model.SerializeToString()}, done
