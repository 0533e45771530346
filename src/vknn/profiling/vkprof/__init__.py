"""The file of a profile (``.vkprof``): what it holds, its writing, its reading with all checks."""

from vknn.profiling.vkprof.about import about
from vknn.profiling.vkprof.file import VERSION, complete_document, read_document, write_document

__all__ = ["VERSION", "about", "complete_document", "read_document", "write_document"]
