"""Batch jobs: a model run on millions of records, on one device or, with Ray Data, on many.

:func:`run` is the whole job; :func:`predict` a stage in a pipeline of one's own; and
:class:`Predictor` what both are made of. Neither Ray nor pyarrow is imported before it is needed.
"""

from vknn.scale.job import plan, run
from vknn.scale.options import Predictor
from vknn.scale.outcome import JobError, Outcome
from vknn.scale.plan import JobPlan
from vknn.scale.report import DeviceReport, Report
from vknn.scale.stages import predict

__all__ = [
    "DeviceReport",
    "JobError",
    "JobPlan",
    "Outcome",
    "Predictor",
    "Report",
    "plan",
    "predict",
    "run",
]
