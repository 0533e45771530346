"""Resize and GridSample."""
