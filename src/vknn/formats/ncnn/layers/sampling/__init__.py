"""Resizing and sampling."""
