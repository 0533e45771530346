"""Choosing among candidates: layouts, measured choices, shared pipelines, views and splits."""
