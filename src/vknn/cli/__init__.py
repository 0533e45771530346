"""The command line: ``vknn devices | info | run | verify | profile | bench | tune``."""

from vknn.cli.main import console, main

__all__ = ["console", "main"]
