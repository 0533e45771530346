"""Batching: one run for several examples of a model, where they are proven not to mix.

:class:`StackedModel` is a model of N examples made of a model of one. Its graph is the one graph
with each value in place of N values, one for each example (``independence``), by a rule for each
operator that is known to keep examples apart (``elementwise``, ``along``, ``movement``,
``products``, ``sequences``). What has no rule is not stacked.
"""

from vknn.batching.case import NotIndependentError
from vknn.batching.independence import stacked_graph
from vknn.batching.stacked_model import StackedModel, joined, parted

__all__ = ["NotIndependentError", "StackedModel", "joined", "parted", "stacked_graph"]
