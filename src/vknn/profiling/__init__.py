"""Profiling: time per dispatch on the device, per run on the host, and of a cold start."""

from vknn.profiling.bench import Benchmark, Series, bench
from vknn.profiling.comparison import ProfileComparison, compare, versus
from vknn.profiling.counter_profile import CounterProfile, count, counters
from vknn.profiling.invocation import HotLoop, Tally
from vknn.profiling.limits import Limits, measure_limits
from vknn.profiling.modelled import ASSUMPTIONS, Assumptions, ModelledTime
from vknn.profiling.profile import Profile, profile
from vknn.profiling.profile_tables import Timing
from vknn.profiling.records import Entry
from vknn.profiling.renderdoc import RenderDocCapture, renderdoc_capture
from vknn.profiling.static import StaticEntry, StaticProfile, static
from vknn.profiling.static_difference import StaticDifference, StaticPair, static_difference
from vknn.profiling.tracing import Trace, trace
from vknn.profiling.vkprof import read_document

__all__ = [
    "ASSUMPTIONS",
    "Assumptions",
    "Benchmark",
    "CounterProfile",
    "Entry",
    "HotLoop",
    "Limits",
    "ModelledTime",
    "Profile",
    "ProfileComparison",
    "RenderDocCapture",
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
    "count",
    "counters",
    "measure_limits",
    "profile",
    "read_document",
    "renderdoc_capture",
    "static",
    "static_difference",
    "trace",
    "versus",
]
