"""Checks of arguments and sliding windows, for all families of ops."""
