"""Layers that move elements: shapes, slices, pads, crops, rearrangements."""
