"""Sphinx configuration of the documentation site; ``tools/docs`` builds it.

The build needs no network: no other project's inventory is fetched, and the theme brings its fonts
and scripts along.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # this checkout's package, whatever is installed

import vknn  # noqa: E402

project = "vknn"
author = "The vknn authors"
copyright = author
release = version = vknn.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
highlight_language = "text"  # indented blocks show files and tables

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

nitpicky = True
# The names of Python, NumPy and rich are known to their readers; their inventories are on the net.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|rich|os|pathlib|collections|typing|types)\..*"),
    (r"py:.*", r"(Any|Callable|Iterable|Iterator|Mapping|Sequence|Path|PathLike)"),
]

html_theme = "furo"
html_title = f"vknn {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
