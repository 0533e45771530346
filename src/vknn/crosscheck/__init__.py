"""The cross-check: every operator on the device, held against NumPy."""

from vknn.crosscheck.advice import (
    LayerAdvice,
    PlanTime,
    PrecisionAdvice,
    TensorRange,
    advise,
)
from vknn.crosscheck.against import AgainstReport, AgainstRow, against
from vknn.crosscheck.comparison import ArrayComparison, compare
from vknn.crosscheck.data_report import DataReport
from vknn.crosscheck.data_rows import DataAgreement, DataRow, SearchTrace, WorstInput
from vknn.crosscheck.metrics import (
    ArrayMetrics,
    ErrorHistogram,
    ErrorSpread,
    MetricError,
    NotFinite,
    measure,
)
from vknn.crosscheck.metrics_table import NotFiniteSource
from vknn.crosscheck.outputs import output_errors
from vknn.crosscheck.over_data import InputRecord, verify_over
from vknn.crosscheck.places import ChannelErrors, ErrorMap
from vknn.crosscheck.record_comparison import RecordComparison, RecordRow, compare_records
from vknn.crosscheck.records import load_record
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.row import VerifyRow
from vknn.crosscheck.search import search
from vknn.crosscheck.tensors import dump
from vknn.crosscheck.tolerance import UNIT, Allowance, allowances
from vknn.crosscheck.verify import verify

__all__ = [
    "UNIT",
    "AgainstReport",
    "AgainstRow",
    "Allowance",
    "ArrayComparison",
    "ArrayMetrics",
    "ChannelErrors",
    "DataAgreement",
    "DataReport",
    "DataRow",
    "ErrorHistogram",
    "ErrorMap",
    "ErrorSpread",
    "InputRecord",
    "LayerAdvice",
    "MetricError",
    "NotFinite",
    "NotFiniteSource",
    "PlanTime",
    "PrecisionAdvice",
    "RecordComparison",
    "RecordRow",
    "SearchTrace",
    "TensorRange",
    "VerifyReport",
    "VerifyRow",
    "WorstInput",
    "advise",
    "against",
    "allowances",
    "compare",
    "compare_records",
    "dump",
    "load_record",
    "measure",
    "output_errors",
    "search",
    "verify",
    "verify_over",
]
