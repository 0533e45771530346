"""Chains that one dispatch computes, on GPUs: a family of kernels for each kind of chain."""

from __future__ import annotations

from vknn.lowering.kernels.chain.expanded import expanded_candidates
from vknn.lowering.kernels.chain.gate import gate_candidates
from vknn.lowering.kernels.chain.head import head_candidates
from vknn.lowering.kernels.chain.inverted import inverted_candidates
from vknn.lowering.kernels.chain.links import links_of
from vknn.lowering.kernels.chain.normalized import normalized_candidates
from vknn.lowering.kernels.chain.scaled import scaled_candidates
from vknn.lowering.kernels.chain.separable import separable_candidates
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.chain import Chain


@lowers(Chain)
def chain(problem: Problem) -> list[Candidate]:
    """Candidates of whichever kernel takes the chain; on CPUs none, where dispatches are cheap."""
    if problem.limits.kind == "cpu" or not problem.outputs[0].dtype.is_float:
        return []
    links = links_of(problem)
    if len(problem.outputs) > 1:
        return normalized_candidates(problem, links)
    families = (
        *(gate_candidates, head_candidates, separable_candidates, expanded_candidates),
        *(inverted_candidates, normalized_candidates, scaled_candidates),
    )
    return [found for family in families for found in family(problem, links)]
