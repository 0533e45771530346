"""Advice on precision: which layers a network of 16 bits has to keep in float32."""

from vknn.crosscheck.advice.advise import advise
from vknn.crosscheck.advice.ranges import TensorRange
from vknn.crosscheck.advice.report import LayerAdvice, PlanTime, PrecisionAdvice

__all__ = ["LayerAdvice", "PlanTime", "PrecisionAdvice", "TensorRange", "advise"]
