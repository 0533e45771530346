"""Processes of trials that are started anew, on systems that have no fork: Windows.

Each takes the second or more that an import of vknn takes, which forked ones do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vknn.forked_work import Ended
from vknn.tuning.child import Child, ChildError

#: Seconds that a process may take to import vknn on a busy machine.
IMPORTS = 60.0
_MODULE = "vknn.reduction.trials"


class Spawned:
    """A process that tries cases again and again; what ``forked_work.Forked`` is where forks are.

    ``setting``: a TrialSetting. ``variables``: of the process's environment, besides those of this.
    """

    def __init__(self, setting: Any, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        self._child = Child(_MODULE, self.variables)
        self._setting = setting  # None once it has been told

    def ask(self, folder: str, timeout: float) -> dict[str, Any] | Ended:
        """The outcome of a folder's case; Ended where there is none in time: it is gone then."""
        left = timeout if self._setting is None else timeout + IMPORTS
        request, self._setting = (self._setting, folder), None
        try:
            return self._child.ask(request, left)
        except ChildError as error:
            return Ended(error.code)

    def close(self) -> None:
        """End of the process."""
        self._child.kill()
