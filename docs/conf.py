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

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# A macro's line continuation is GLSL, which Pygments' lexer does not know.
suppress_warnings = ["misc.highlighting_failure"]

nitpicky = True
# Names of Python, NumPy and rich in signatures: their inventories would have to be fetched.
nitpick_ignore = [
    *(
        ("py:class", f"collections.abc.{n}")
        for n in (
            "Collection",
            "Callable",
            "Generator",
            "Iterable",
            "Iterator",
            "Mapping",
            "Sequence",
        )
    ),
    *(("py:class", f"numpy.{name}") for name in ("dtype", "ndarray")),
    ("py:class", "collections.Counter"),
    ("py:class", "os.PathLike"),
    ("py:class", "pathlib.Path"),
    ("py:class", "rich.console.Group"),
    ("py:class", "rich.table.Table"),
    ("py:class", "Callback"),  # imported for type checkers only, which Sphinx < 9 does not resolve
    # Internal: what a recipe is made of.
    ("py:class", "vknn.answers.decoder.Decoder"),
    ("py:class", "vknn.answers.decoder.Labels"),
    ("py:class", "vknn.answers.recipe.ModelSignature"),
    ("py:class", "vknn.pictures.ImageOptions"),
    ("py:class", "vknn.profiling.records.TimedRun"),  # internal: the raw records of a profile
]

html_theme = "furo"
html_title = f"vknn {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
