"""Groups of words, hashes of rows: by hand and by published values."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import f32, i32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.text.fingerprint import fingerprint64
from vknn.ops.text.lsh_projection import LshProjection
from vknn.ops.text.murmur_hash import MurmurHash3
from vknn.ops.text.skip_gram import SkipGram


def groups(op: SkipGram, text: bytes) -> list[bytes]:
    (y,) = op.reference(np.array([text], object))
    return list(y)


def test_groups_of_words() -> None:
    assert groups(SkipGram(2), b"a b c") == [b"a b", b"b c"]
    assert groups(SkipGram(2, 1), b"a b c") == [b"a b", b"a c", b"b c"]
    found = groups(SkipGram(3, 0, include_all_ngrams=True), b"a  b\tc")
    assert found == [b"a b c", b"a b", b"a", b"b c", b"b", b"c"]
    assert groups(SkipGram(3), b"a b") == []
    assert groups(SkipGram(1), b" a b") == [b"b"]


def test_groups_refused() -> None:
    text = TensorType((1,), DType.STRING)
    assert SkipGram(2).infer(text) == (TensorType((None,), DType.STRING),)
    refuses(SkipGram(2), f32(1), match="takes a text")
    refuses(SkipGram(0), text, match="groups of 0")


#: The first three are the example of BigQuery's FARM_FINGERPRINT.
PRINTS = {
    b"1footrue": -1541654101129638711,
    b"2applefalse": 2794438866806483259,
    b"3true": -4880158226897771312,
    b"": 0x9AE16A3B2F90404F - (1 << 64),
}


@pytest.mark.parametrize("key", PRINTS)
def test_fingerprints(key: bytes) -> None:
    keys = np.frombuffer(key * 2, np.uint8).reshape(2, len(key))
    assert fingerprint64(keys).view(np.int64).tolist() == [PRINTS[key]] * 2


def test_bits_by_hand() -> None:
    """Bit by bit from the hashes of seed and row; each number holds its bits and its place."""
    seeds = np.array([[0.5, -1.25], [3.0, 7.5]], np.float32)
    x, weights = np.array([[1, 2], [3, 4], [5, 6]], np.int16), np.array([1, -2, 3], np.float32)
    bits = []
    for seed in seeds.reshape(-1):
        total = 0.0
        for row, weight in zip(x, weights, strict=True):
            key = np.frombuffer(seed.tobytes() + row.tobytes(), np.uint8)
            total += float(weight) * float(fingerprint64(key[None]).view(np.int64)[0])
        bits.append(int(total > 0))
    (dense,) = LshProjection().reference(seeds, x, weights)
    assert dense.tolist() == bits
    (sparse,) = LshProjection(sparse=True).reference(seeds, x, weights)
    assert sparse.tolist() == [2 * bits[0] + bits[1], 4 + 2 * bits[2] + bits[3]]


def test_hashes_refused() -> None:
    refuses(LshProjection(), f32(2), f32(3), None, match="the seeds are")
    refuses(LshProjection(), f32(2, 33), f32(3), None, match="many bits")
    refuses(LshProjection(), i32(2, 3), f32(3), None, match="float32")
    refuses(LshProjection(), f32(2, 3), f32(3, 2), f32(2), match="weights")


def test_murmur_hash() -> None:
    """Published values of MurmurHash3_x86_32."""
    known = {
        ("", 0): 0, ("", 1): 0x514E28B7, ("", 0xFFFFFFFF): 0x81F16F39, ("test", 0): 0xBA6BD213,
        ("test", 0x9747B28C): 0x704B81DC, ("Hello, world!", 0): 0xC0363E43,
        ("The quick brown fox jumps over the lazy dog", 0x9747B28C): 0x2FA826CD,
    }  # fmt: skip
    for (text, seed), want in known.items():
        for given in (text, text.encode()):
            x = np.empty(1, object)
            x[0] = given
            assert MurmurHash3(seed).reference(x)[0].tolist() == [want]
    # Four bytes of a number are those of a text; 0x74736574 is "test".
    words = np.array([[0x74736574], [0]], np.int32)
    (found,) = MurmurHash3(0).reference(words)
    assert found.dtype == np.uint32 and found.tolist() == [[0xBA6BD213], [0x2362F9DE]]
    (signed,) = MurmurHash3(0, positive=False).reference(words)
    assert signed.dtype == np.int32 and signed[0, 0] == 0xBA6BD213 - (1 << 32)
    refuses(MurmurHash3(), TensorType((1,), DType.INT16), match="another size")
