"""The command line: ``vknn devices | info | run | verify | profile | bench | tune``."""

from vknn.cli.main import main

__all__ = ["main"]
