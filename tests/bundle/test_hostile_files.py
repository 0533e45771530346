"""Bundles that are whole, cut off, changed or huge, through runner/check.c under sanitizers."""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import check_program, mutations
from tests.bundle.mutations import HEADER_BYTES, Parts

from vknn.bundle import schema

pytestmark = pytest.mark.long

FILE, HASH = 1, 2
CHECKS = (check_program.RUNNER / "check.c").read_text(encoding="utf-8")
#: Fields in which another number is as good: what only people read, what a device is compared
#: with, and numbers that shaders and the host's arithmetic take as they are.
FREE = {
    "header": {"sha256", "data_sha256", "table_crc"},  # a sum is made right again
    "section": {"crc", "offset"},  # the same, and other bytes that happen to suit
    "plan": {
        "work", "loop_rounds", "features", "storage_range", "texel_elements", "group_size",
        "group_invocations", "group_count", "shared_memory", "push_bytes", "storage_buffers",
        "uniform_texel_buffers", "storage_texel_buffers", "storage_alignment", "texel_alignment",
        "subgroup_size", "vulkan", "arenas", "name", "target", "shapes", "precision",
    },
    "buffer": {"name", "role", "offset", "nbytes", "blob"},
    "step": {
        "label", "op", "pipeline", "kind", "first_bindings", "bindings", "push", "groups", "source",
        "target", "source_offset", "target_offset", "nbytes", "word", "flops", "traffic",
    },
    "pipeline": {"kernel", "first_constants", "constants", "first_slots", "push_bytes", "flags"},
    "module": {"shared_memory"},
    "constant": {"id", "word"},
    "slot": {"access"},
    "binding": {"buffer", "format"},
    "port": {
        "name", "type", "rank", "dims", "buffer", "count", "open_axis", "layout", "first_labels",
        "labels", "picture", "quantized", "scale", "zero_point",
    },
    "submit": {"end"},
    "blob": {"offset", "nbytes", "crc"},
    "label": {"text"},
    "state": {"name", "input", "output", "blob", "nbytes"},
    "example": {"port", "blob", "absolute", "relative"},
    "matrix": {"m", "n", "k", "factors", "sums"},
}  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return mutations.rich_bundle(tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="module")
def path(bundle: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("whole") / "rich.vkb"
    found.write_bytes(bundle)
    return found


def test_a_whole_bundle_is_let_through_in_silence(bundle: bytes, tmp_path: Path) -> None:
    def large(parts: Parts) -> None:
        """As large as tolerances and scales may be."""
        most = np.nextafter(np.float32(schema.MOST_TOLERANCE), np.float32(0))
        parts.table(schema.EXAMPLE)["absolute"] = parts.table(schema.EXAMPLE)["relative"] = most
        parts.table(schema.PORT)["scale"] = most

    longer = mutations.changed(bundle, lambda p: p.header.__setitem__("file_bytes", 70_000))
    files = [bundle, longer, mutations.changed(bundle, large)]
    assert check_program.opened(files, tmp_path) == [(0, "")] * 3


def test_no_bundle_and_newer_ones_say_what_to_do(bundle: bytes, tmp_path: Path) -> None:
    newer = bundle[:8] + (2).to_bytes(4, "little") + bundle[12:]
    others = [b"x", bundle[:127], b"\x89PNG" + bundle[4:], newer]
    told = check_program.opened(others, tmp_path)
    assert [status for status, _ in told] == [FILE] * 4
    assert all("This is no bundle" in message for _, message in told[:3])
    assert "format version 2" in told[3][1] and "build a newer vknn_run.c" in told[3][1]


def test_cut_off_at_every_border(bundle: bytes, tmp_path: Path) -> None:
    entries = Parts.of(bundle).entries
    borders = {HEADER_BYTES, HEADER_BYTES + entries.nbytes}
    for row in entries:
        borders |= {int(row["offset"]), int(row["offset"] + row["nbytes"])}
    sizes = sorted({b + d for b in borders for d in (-1, 0, 1)} & set(range(128, len(bundle))))
    told = check_program.opened((bundle[:size] for size in sizes), tmp_path)
    assert len(sizes) > 80
    for status, message in told:
        assert status == FILE and "field file_bytes" in message and "cut off" in message
    # The header says the new size: the sections' own places are looked at.
    lied = []
    for size in sizes:
        header = np.frombuffer(bundle, schema.HEADER.dtype, 1).copy()
        header["file_bytes"] = size
        lied.append(header.tobytes() + bundle[HEADER_BYTES:size])
    for status, message in check_program.opened(lied, tmp_path):
        assert status == FILE and ("field nbytes" in message or "field sections" in message)


def test_wrong_sums_are_named(bundle: bytes, tmp_path: Path) -> None:
    parts = Parts.of(bundle)
    sections = [int(k) for k in parts.entries["kind"] if k != schema.DATA.section]
    changed = []
    for kind in sections:
        at = int(parts.entry(kind)["offset"][0])
        changed.append(bundle[:at] + bytes([bundle[at] ^ 1]) + bundle[at + 1 :])
    told = check_program.opened(changed, tmp_path)
    for status, message in told:
        assert status == FILE and "field crc" in message and "of equal sums" in message
    at = HEADER_BYTES + 4
    [(status, message)] = check_program.opened([bundle[:at] + b"\1" + bundle[at + 1 :]], tmp_path)
    assert status == FILE and "field table_crc" in message


def test_a_pinned_bundle_is_that_one_or_refused(bundle: bytes, path: Path, tmp_path: Path) -> None:
    sum_ = bundle[32:64].hex()
    assert sum_ == hashlib.sha256(bundle[:32] + bytes(32) + bundle[64:]).hexdigest()
    assert check_program.run(["pinned", path, sum_]) == "0 \n"
    at = len(bundle) - 1  # a byte of the data, of which nothing else here knows
    for data in (
        bundle[:at] + bytes([bundle[at] ^ 1]),
        bundle[:40] + bytes([bundle[40] ^ 1]) + bundle[41:],
        bundle[:70] + bytes([bundle[70] ^ 1]) + bundle[71:],
    ):
        other = tmp_path / "other.vkb"
        other.write_bytes(data)
        status, _, message = check_program.run(["pinned", other, sum_]).partition(" ")
        assert int(status) == HASH and "SHA-256" in message and "vknn bundle" in message


def test_sums_are_those_of_python(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, 300, np.uint8).tobytes()
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(data)
    large.write_bytes(data * 40 + b"odd")
    lines = check_program.run(["sums", small]).splitlines()
    assert len(lines) == 301  # 0, 55, 56, 63, 64, 65 among them
    for size, line in enumerate(lines):
        part = data[:size]
        assert line == f"{zlib.crc32(part):08x} {hashlib.sha256(part).hexdigest()}"
    for first, last in ((4090, 4110), (11_998, 12_003)):  # tables are made from 4096 on
        lines = check_program.run(["sums", large, first, last]).splitlines()
        for size, line in zip(range(first, last + 1), lines, strict=True):
            part = large.read_bytes()[:size]
            assert line == f"{zlib.crc32(part):08x} {hashlib.sha256(part).hexdigest()}"


def test_bundles_beyond_four_gibibytes(bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "large.vkb"
    data_bytes = 5 << 30

    def change(parts: Parts) -> None:
        entry = parts.entry(schema.DATA.section)
        entry["nbytes"], entry["count"] = data_bytes, 0
        blobs = parts.table(schema.BLOB)
        blobs["offset"][0] = (9 << 29) + 256  # 4.5 GiB: 256 in 32 bits
        parts.header["file_bytes"] = int(entry["offset"][0]) + data_bytes

    parts = Parts.of(bundle)
    change(parts)
    data = parts.joined(room=len(bundle))
    path.write_bytes(data)
    with path.open("r+b") as file:  # sparse
        file.truncate(int(parts.header["file_bytes"][0]))
    assert check_program.run(["open", path]) == "0 \n"
    parts.table(schema.BLOB)["nbytes"][0] = 1 << 29
    path.write_bytes(parts.joined(room=len(bundle)))
    with path.open("r+b") as file:
        file.truncate(int(parts.header["file_bytes"][0]))
    assert "blobs, record 0, field offset: 4831838464" in check_program.run(["open", path])


def test_changed_bytes_are_reported_or_not_read(bundle: bytes, path: Path) -> None:
    parts = Parts.of(bundle)
    end = max(int(e["offset"] + e["nbytes"]) for e in parts.entries if e["kind"] != 15)
    let_through = {int(n) for n in check_program.run(["flips", path, end, 0]).split()}
    read = set(range(HEADER_BYTES + parts.entries.nbytes)) - set(range(32, 96))  # without SHA-256s
    for entry in parts.entries:
        read |= set(range(int(entry["offset"]), int(entry["offset"] + entry["nbytes"])))
    assert not let_through & read
    assert set(range(end)) - let_through == read & set(range(end))


def test_with_right_sums_only_free_fields_change(bundle: bytes, path: Path) -> None:
    parts = Parts.of(bundle)
    end = int(parts.entry(schema.SPIRV.section)["offset"][0])
    let_through = {int(n) for n in check_program.run(["flips", path, end, 1]).split()}
    found: dict[str, set[str]] = {"header": _fields(schema.HEADER, 0, 1, let_through)}
    found["section"] = _fields(schema.SECTION, HEADER_BYTES, len(parts.entries), let_through)
    for record in schema.RECORDS:
        first = int(parts.entry(record.section)["offset"][0])
        found[record.name] = _fields(record, first, len(parts.table(record)), let_through)
    for name, fields in found.items():
        assert fields <= FREE[name], name
    assert not {"reserved", "first_buffers", "view"} & set().union(*found.values())


def _fields(record: schema.TableRecord, first: int, count: int, offsets: set[int]) -> set[str]:
    """The fields of records that have one of these offsets of the file."""
    size = record.dtype.itemsize
    inside = [(o - first) % size for o in offsets if first <= o < first + count * size]
    spans = [(name, *record.dtype.fields[name][:2]) for name in record.dtype.names]  # type: ignore
    return {n for n, kind, at in spans if any(at <= o < at + kind.itemsize for o in inside)}


@pytest.mark.parametrize("compiler", check_program.COMPILERS)
def test_ten_thousand_mutations(path: Path, compiler: str) -> None:
    built = check_program.program(name=compiler)
    told = check_program.run(["mutate", path, 10_000, 1], built, limit=60)
    words = told.split()
    assert words[0] == "10000" and 1000 < int(words[2]) < 7000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_more_mutations(path: Path, seed: int) -> None:
    assert check_program.run(["mutate", path, 50_000, 100 + seed], limit=280)


def test_mutations_in_32_bits(bundle: bytes, path: Path) -> None:
    built = check_program.program(
        ("-O1", "-m32", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    )
    assert check_program.run(["open", path], built) == "0 \n"
    assert check_program.run(["mutate", path, 5_000, 1], built).startswith("5000 mutations")


#: Rules that are taken out, and what is put in their place: mutations have to end the program.
TAKEN_OUT = {
    "a binding's buffer": ("NEED(r, buffer, r->buffer < p->buffers);\n    buffer", "buffer"),
    "texts": ("r->field < b->strings_bytes", "1"),
    "blobs": (" && within(r->offset, r->nbytes, b->data_bytes)", ""),
    "a copy": (
        "NEED(r, source_offset, within(r->source_offset, r->nbytes, source->nbytes));",
        "",
    ),
    "sections": ("within(s->offset, s->nbytes, b->size)", "1"),
    "instructions": ("n && n <= (uint64_t)(end - w)", "1"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if i else ()) for i, n in enumerate(TAKEN_OUT)]
)
def test_mutations_find_a_rule_that_is_missing(path: Path, name: str) -> None:
    rule, rest = TAKEN_OUT[name]
    assert CHECKS.count(rule) == 1
    flags = tuple(flag for flag in check_program.SANITIZED if not flag.startswith("-O"))
    built = check_program.program(flags, checks=CHECKS.replace(rule, rest))
    try:
        done = check_program.ran(["mutate", path, 10_000, 1], built, limit=30)
    except subprocess.TimeoutExpired:
        assert name == "instructions"  # those of no words have no end
        return
    assert done.returncode != 0
    assert "let through" in done.stderr or "Sanitizer" in done.stderr or "error" in done.stderr


@pytest.mark.parametrize(
    ("most", "field"), [(6, "modules, record 0, field nbytes"), (10, "pipelines, record 0, field")]
)
def test_the_work_of_checking_has_a_limit(
    bundle: bytes, tmp_path: Path, most: int, field: str
) -> None:
    assert CHECKS.count("(uint64_t)1 << 31") == 1
    checks = CHECKS.replace("(uint64_t)1 << 31", f"(uint64_t)1 << {most}")
    built = check_program.program(("-O0",), checks=checks)
    [(status, message)] = check_program.opened([bundle], tmp_path, built)
    assert status == FILE and field in message
