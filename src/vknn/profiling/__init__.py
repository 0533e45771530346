"""Profiling: time per dispatch on the device, per run on the host, and of a cold start."""

from vknn.profiling.bench import Benchmark, Series, bench
from vknn.profiling.comparison import ProfileComparison, compare, versus
from vknn.profiling.invocation import HotLoop, Tally
from vknn.profiling.limits import Limits, measure_limits
from vknn.profiling.modelled import ASSUMPTIONS, Assumptions, ModelledTime
from vknn.profiling.profile import Profile, Timing, profile
from vknn.profiling.records import Entry
from vknn.profiling.static import StaticEntry, StaticProfile, static
from vknn.profiling.static_difference import StaticDifference, StaticPair, static_difference
from vknn.profiling.tracing import Trace, trace
from vknn.profiling.vkprof import read_document

__all__ = [
    "ASSUMPTIONS",
    "Assumptions",
    "Benchmark",
    "Entry",
    "HotLoop",
    "Limits",
    "ModelledTime",
    "Profile",
    "ProfileComparison",
    "Series",
    "StaticDifference",
    "StaticEntry",
    "StaticPair",
    "StaticProfile",
    "Tally",
    "Timing",
    "Trace",
    "bench",
    "compare",
    "measure_limits",
    "profile",
    "read_document",
    "static",
    "static_difference",
    "trace",
    "versus",
]
