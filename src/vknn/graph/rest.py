"""What follows a graph when its results decide how the computation goes on.

Loops and branches, and shapes that are computed at run time: a format builds its graph up to such a
place and leaves the rest to an object that is shown the arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from vknn.graph.graph import Graph

Arrays = dict[str, np.ndarray]
#: ``call(key, make, feeds)`` runs the graph that ``make`` gives on arrays by input name, and gives
#: those of its outputs. Graphs are kept by ``key``: equal keys must mean equal graphs.
Call = Callable[[Hashable, Callable[[], Graph], Mapping[str, np.ndarray]], Arrays]


class Rest(ABC):
    """The rest of a computation.

    ``takes`` names the outputs of its graph that it is shown, ``layers`` the types of the file's
    layers that follow, as far as they are known before.
    """

    takes: tuple[str, ...]
    layers: tuple[str, ...] = ()

    @abstractmethod
    def resume(self, arrays: Mapping[str, np.ndarray], call: Call) -> Arrays:
        """The outputs that are still missing, by name, for the arrays of ``takes``."""
