"""Operators on strings, which are computed on the host."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops.movement.shape import Reshape
from vknn.ops.text.matching import RegexFullMatch, matcher
from vknn.ops.text.ngrams import MODES, TfIdfVectorizer
from vknn.ops.text.patterns import BadPattern
from vknn.ops.text.strings import StringConcat, StringNormalizer, StringSplit


@operator("StringConcat", 20, inputs=2)
def string_concat(c: Context) -> Value:
    """a followed by b, which broadcast"""
    return c.add(StringConcat(), c.value(0), c.value(1))


@operator("StringSplit", 20, outputs=2)
def string_split(c: Context) -> tuple[Value, ...]:
    """Parts of strings, filled up with empty ones, and how many there are"""
    limit = c.int("maxsplit", -1)
    return c.add_many(StringSplit(c.text("delimiter", ""), max(limit, -1)), c.x)


@operator("StringNormalizer", 10)
def string_normalizer(c: Context) -> Value:
    """Strings that are no stop words, in lower or upper case; of any locale in the same way"""
    dims = c.x.type.dims
    row = len(dims) == 2 and dims[0] == 1
    c.require(len(dims) == 1 or row, f"takes a vector or one row, not {c.x.type}")
    op = StringNormalizer(
        c.texts("stopwords", ()),
        c.text("case_change_action", "NONE", ("NONE", "LOWER", "UPPER")),
        c.flag("is_case_sensitive"),
    )
    found = c.add(op, c.reshape(c.x, dims[-1:]))
    return c.add(Reshape((1, -1)), found) if row else found


@operator("RegexFullMatch", 20)
def regex_full_match(c: Context) -> Value:
    """Whether a pattern in RE2's syntax matches whole strings"""
    pattern = c.text("pattern", "")
    try:
        matcher(pattern)
    except BadPattern as error:
        c.refuse(f"the pattern {pattern!r}: it {error}")
    return c.add(RegexFullMatch(pattern), c.x)


@operator("TfIdfVectorizer", 9)
def tf_idf_vectorizer(c: Context) -> Value:
    """Counts of n-grams, whether there are any, or counts times weights"""
    texts, numbers = c.texts("pool_strings", None), c.int_list("pool_int64s", None)
    c.require((texts is None) != (numbers is None), "has no pool, or two")
    strings = c.x.type.dtype is DType.STRING
    c.require(strings == (texts is not None), f"looks for other items than {c.x.type} has")
    pool = numbers if texts is None else tuple(text.encode() for text in texts)
    op = TfIdfVectorizer(
        pool, c.int_list("ngram_counts"), c.int_list("ngram_indexes"), c.int("min_gram_length"),
        c.int("max_gram_length"), c.int("max_skip_count"), c.text("mode", choices=MODES),
        c.float_list("weights", ()),
    )  # fmt: skip
    return c.add(op, c.x)
