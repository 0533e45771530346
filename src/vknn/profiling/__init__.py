"""Profiling: time per dispatch on the device, per run on the host, and of a cold start."""

from vknn.profiling.bench import Benchmark, Series, bench
from vknn.profiling.limits import Limits, measure_limits
from vknn.profiling.profile import Profile, Timing, profile
from vknn.profiling.records import Entry
from vknn.profiling.static import StaticEntry, StaticProfile, static

__all__ = [
    "Benchmark",
    "Entry",
    "Limits",
    "Profile",
    "Series",
    "StaticEntry",
    "StaticProfile",
    "Timing",
    "bench",
    "measure_limits",
    "profile",
    "static",
]
