"""Assembling a plan: memory, barriers, submits, the proof that it is safe, its text."""
