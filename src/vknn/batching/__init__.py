"""Batching: one run for several examples of a model, where they are proven not to mix.

:class:`StackedModel` is a model of N examples made of a model of one. Its graph is the one graph
with each value in place of N values, one for each example (``independence``), by a rule for each
operator that is known to keep examples apart (``elementwise``, ``along``, ``movement``,
``products``, ``sequences``). What has no rule is not stacked.

:class:`Stacker` runs it where it is measured to be faster, for lists (``list_runs``) and for batch
jobs.
"""

from vknn.batching.agreement import same_bits, shape_of
from vknn.batching.case import NotIndependentError
from vknn.batching.independence import stacked_graph
from vknn.batching.list_runs import checked_stacked, list_answers
from vknn.batching.stacked_model import StackedModel, joined, parted
from vknn.batching.stacker import GAIN, LOST, MOST_STACKED, STACKED, Stacker, filled

__all__ = [
    "GAIN",
    "LOST",
    "MOST_STACKED",
    "STACKED",
    "NotIndependentError",
    "StackedModel",
    "Stacker",
    "checked_stacked",
    "filled",
    "joined",
    "list_answers",
    "parted",
    "same_bits",
    "shape_of",
    "stacked_graph",
]
