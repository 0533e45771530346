"""Checks of arguments and window arithmetic that several families share."""
