"""Code written by tools."""
