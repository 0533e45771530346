"""Other engines, run where their wheels are installed, in processes that may crash or never end."""

from vknn.crosscheck.engines.kinds import ENGINES
from vknn.crosscheck.engines.runs import TIMEOUT, EngineRun, run_engine

__all__ = ["ENGINES", "TIMEOUT", "EngineRun", "run_engine"]
