"""Converters of StableHLO's operators, by StableHLO's specification: nothing broadcasts."""
