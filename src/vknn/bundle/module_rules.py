"""Rules for modules that a runner holds a bundle to, and which shaders of custom layers may break.

``runner/check.c`` calls what breaks them damage, when the bundle is opened; the export says which
layer it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vknn.bundle.module_facts import ModuleFacts, module_facts
from vknn.bundle.module_structure import check_module
from vknn.bundle.needs import capabilities, group_size
from vknn.bundle.shader_rules import (
    MOST_CONSTANTS,
    MOST_SLOTS,
    PipelineParts,
    check_pipeline,
)
from vknn.errors import ExportError, ShaderError
from vknn.plan import Dispatch
from vknn.runtime.pipelines import DESCRIPTOR_TYPES, PipelineKey

_REMEDY = "change its shader, or cut the network in front of it with --outputs"


def facts_of(dispatches: Sequence[Dispatch], keys: Sequence[PipelineKey]) -> list[ModuleFacts]:
    """The facts of each dispatch's module with its constants.

    Raises ExportError, which names the layer of each module that no bundle can have.
    """
    known: dict[PipelineKey, ModuleFacts] = {}
    reasons = []
    for dispatch, key in zip(dispatches, keys, strict=True):
        if key in known:
            continue
        try:
            known[key] = module_facts(key.spirv, words_of(key))
            _check(dispatch, key, known[key])
        except ShaderError as error:
            reasons.append(f"{', '.join(dispatch.nodes)}: its shader {error}; {_REMEDY}")
    if reasons:
        raise ExportError(tuple(dict.fromkeys(reasons)))
    return [known[key] for key in keys]


def words_of(key: PipelineKey) -> Mapping[int, int]:
    """The words of a pipeline's specialization constants, by their ids."""
    return {number: int.from_bytes(word, "little") for number, word in key.constants}


def _check(dispatch: Dispatch, key: PipelineKey, facts: ModuleFacts) -> None:
    """Check of what a runner checks; raises ShaderError."""
    capabilities(facts.capabilities)
    bound, constants = len(dispatch.bindings), len(key.constants)
    if bound > MOST_SLOTS:
        raise ShaderError(f"binds {bound} buffers, in a bundle at most {MOST_SLOTS}")
    if constants > MOST_CONSTANTS:
        raise ShaderError(f"has {constants} specialization constants, at most {MOST_CONSTANTS}")
    if facts.group_size != group_size(dispatch):
        own, given = ("x".join(map(str, s)) for s in (facts.group_size, group_size(dispatch)))
        raise ShaderError(f"has workgroups of {own} lanes, but the layer says {given}")
    if facts.push_bytes is None:
        raise ShaderError("has push constants that are no numbers, vectors or arrays")
    if facts.push_bytes > key.push:
        raise ShaderError(f"has {facts.push_bytes} bytes of push constants but is given {key.push}")
    if key.push % 4:
        raise ShaderError(f"is given {key.push} bytes of push constants, no whole words")
    if dispatch.source is not None:  # vknn's own are as they should be
        views = [DESCRIPTOR_TYPES[view] for view in key.views]
        check_module(key.spirv)
        check_pipeline(key.spirv, PipelineParts(words_of(key), views, key.push))
