"""Bundles that break one rule of runner/check.c each, and where its message says that it is."""

from __future__ import annotations

import numpy as np
from tests.bundle.changes import (
    Change,
    both,
    entry,
    grown,
    header,
    long_name,
    nothing,
    put,
    shorter,
    swapped,
    text,
    word,
)
from tests.bundle.mutations import MAIN, op

from vknn.bundle import schema
from vknn.bundle.schema import NONE

P, B, S, L, M = schema.PLAN, schema.BUFFER, schema.STEP, schema.PIPELINE, schema.MODULE
C, V, G, T, U = schema.CONSTANT, schema.SLOT, schema.BINDING, schema.PORT, schema.SUBMIT
D, A, H, E, X = schema.BLOB, schema.LABEL, schema.STATE, schema.EXAMPLE, schema.MATRIX
#: Steps of the first plan.
FILL, RICH, COPY, PLAIN = 0, 2, 4, 6
BIG = 1 << 48

#: Name -> change, and where the message says it is: table, record, field and value.
CASES: dict[str, tuple[Change, str]] = {
    "header bytes": (header("header_bytes", 127), "header 0 header_bytes: 127"),
    "reserved byte": (header("reserved", [[0] * 31 + [1]]), "header 0 reserved[0]"),
    "many sections": (header("sections", 1 << 31), "header 0 sections: 2147483648"),
    "no plans": (lambda p: p.without(P.section), "header 0 sections: 19"),
    "kind unknown": (entry(5, "kind", 99), "section table 4 kind: 99"),
    "kind 0": (entry(5, "kind", 0), "section table 4 kind: 0"),
    "kind twice": (entry(5, "kind", 4), "section table 4 kind: 4"),
    "section unaligned": (entry(5, "offset", 8200), "section table 4 offset: 8200"),
    "section in table": (entry(5, "offset", 128), "section table 4 offset: 128"),
    "section outside": (entry(5, "nbytes", 2**64 - 64), "section table 4 nbytes"),
    "sections overlap": (
        lambda p: entry(5, "offset", int(p.entries["offset"][1]))(p),
        "section table 4 offset",
    ),
    "record size": (entry(5, "record_bytes", 16), "section table 4 record_bytes: 16"),
    "record count": (entry(5, "count", 3), "section table 4 count: 3"),
    "data's sum": (entry(15, "crc", 5), "field crc: 5"),
    "first text": (text(0, 65), "strings, near byte 0"),
    "last text": (text(-1, 65), "strings, near byte 0"),
    "byte alone": (text(2, 0x80), "strings, near byte 2"),
    "byte cut": (text(2, 0xC3), "strings, near byte"),
    "byte too long": (both(text(2, 0xE0), text(3, 0x80), text(4, 0x80)), "strings, near byte"),
    "surrogate": (both(text(2, 0xED), text(3, 0xA0), text(4, 0x80)), "strings, near byte"),
    "four bytes short": (both(text(2, 0xF0), text(3, 0x80)), "strings, near byte"),
    "beyond Unicode": (both(text(2, 0xF4), text(3, 0x90)), "strings, near byte"),
    **{
        f"{r.name} {f}": (put(r, 0, f, 1 << 20), f"s 0 {f}: 1048576")
        for r, f in [
            (P, "name"),
            (P, "target"),
            (P, "shapes"),
            (P, "precision"),
            (B, "name"),
            (S, "label"),
            (S, "op"),
            (L, "kernel"),
            (T, "name"),
            (T, "layout"),
            (T, "picture"),
            (A, "text"),
            (H, "name"),
        ]
    },
    **{
        f"{r.name} reserved": (put(r, 1, "reserved", 1), "s 1 reserved: 1")
        for r in (B, S, M, U, D, A, X)
    },
    **{
        f"{r.name}'s {f}": (put(r, 0, f, 2**32 - 1), f"s 0 {f}: 4294967295")
        for r, f in [
            (P, "buffers"),
            (P, "steps"),
            (P, "submits"),
            (P, "ports"),
            (P, "states"),
            (P, "examples"),
            (P, "matrices"),
            (S, "bindings"),
            (L, "constants"),
            (L, "slots"),
            (T, "labels"),
        ]
    },
    **{
        f"{f} of two plans": (put(P, 1, f"first_{f}", 0), f"plans 1 first_{f}: 0")
        for f in ("buffers", "steps", "submits", "ports", "states", "examples", "matrices")
    },
    **{
        f"{f} of no plan": (put(P, 1, f, few), f"plans 1 {f}: {few}")
        for f, few in [("states", 0), ("examples", 1), ("matrices", 0)]
    },
    "ports of no plan": (
        both(put(P, 1, "ports", 2), put(E, 3, "port", 0), put(E, 3, "blob", 2)),
        "plans 1 ports: 2",
    ),
    "steps of no plan": (both(put(P, 1, "steps", 6), put(U, 3, "end", 6)), "plans 1 steps: 6"),
    "submits of no plan": (
        both(put(P, 1, "submits", 1), put(U, 2, "end", 7)),
        "plans 1 submits: 1",
    ),
    "buffers of no plan": (grown(B, 1, lambda p: None), "plans 1 buffers: 9"),
    **{f"arena {i}": (put(P, 1, "arenas", BIG + 1, i), "plans 1 arenas[i]") for i in range(3)},
    "unknown feature": (put(P, 0, "features", 1 << 19), "plans 0 features: 524288"),
    "matrices without": (put(P, 0, "features", 0x600), "plans 0 features: 1536"),
    "Vulkan 2": (put(P, 0, "vulkan", 2 << 22), "plans 0 vulkan"),
    "storage alignment": (put(P, 0, "storage_alignment", 512), "field storage_alignment: 512"),
    "texel alignment": (put(P, 0, "texel_alignment", 0), "field texel_alignment: 0"),
    "subgroup size": (put(P, 0, "subgroup_size", 24), "field subgroup_size: 24"),
    "role": (put(B, 3, "role", 4), "buffers 3 role: 4"),
    "empty buffer": (put(B, 3, "nbytes", 0), "buffers 3 nbytes: 0"),
    "buffer unaligned": (put(B, 3, "offset", 254), "buffers 3 offset: 254"),
    "step kind": (put(S, 1, "kind", 4), "steps 1 kind: 4"),
    "push unaligned": (put(S, RICH, "push", 2), "steps 2 push: 2"),
    "module index": (put(L, 1, "module", 2), "pipelines 1 module: 2"),
    "constants, many": (grown(C, 200, put(L, 0, "constants", 129)), "pipelines 0 constants: 129"),
    "slots, many": (grown(V, 99, put(L, 0, "slots", 33)), "pipelines 0 slots: 33"),
    "push bytes": (put(L, 0, "push_bytes", 38), "pipelines 0 push_bytes: 38"),
    "flags": (put(L, 0, "flags", 2), "pipelines 0 flags: 2"),
    "module unaligned": (put(M, 1, "offset", 2), "modules 1 offset: 2"),
    "module outside": (put(M, 1, "offset", 2**64 - 4), "modules 1 offset"),
    "module cut": (shorter(1), "modules 1 nbytes"),
    "module short": (put(M, 1, "nbytes", 20), "modules 1 nbytes: 20"),
    "slot view": (put(V, 2, "view", 6), "slots 2 view: 6"),
    "slot access": (put(V, 1, "access", 4), "slots 1 access: 4"),
    "slot without access": (put(V, 1, "access", 0), "slots 1 access: 0"),
    "uniform texels written": (put(V, 2, "access", 3), "slots 2 access: 3"),
    "blob unaligned": (put(D, 1, "offset", 128), "blobs 1 offset: 128"),
    "blob outside": (put(D, 1, "nbytes", 2**64 - 256), "blobs 1 offset"),
    "direction": (put(T, 0, "direction", 2), "ports 0 direction: 2"),
    "type": (put(T, 0, "type", 12), "ports 0 type: 12"),
    "rank": (put(T, 0, "rank", 9), "ports 0 rank: 9"),
    "quantized": (put(T, 1, "quantized", 2), "ports 1 quantized: 2"),
    "scale": (put(T, 1, "scale", np.nan), "ports 1 quantized"),
    "layout": (put(T, 0, "rank", 1), "ports 0 layout"),
    "example's blob": (put(E, 0, "blob", 99), "examples 0 blob: 99"),
    "absolute": (put(E, 1, "absolute", -1), "examples 1 port"),
    "relative": (put(E, 1, "relative", np.inf), "examples 1 port"),
    "no number": (put(E, 1, "absolute", np.nan), "examples 1 port"),
    "matrix": (put(X, 0, "n", 0), "matrices 0 m: 16"),
    # Shaders
    "no SPIR-V": (word(0, 0x07230204), "modules 0 offset: 0"),
    "SPIR-V 1.7": (word(1, 0x10700), "modules 0 offset: 0"),
    "instruction of no words": (word(5, 17), "modules 0 offset: 0"),
    "instruction too long": (word(5, 0xFFFF << 16), "modules 0 offset: 0"),
    "late capability": (swapped(op(17, 46), nothing(2)), "modules 0 offset: 0"),
    "another stage": (swapped(op(15, 5, 1, *MAIN), op(15, 4, 1, *MAIN)), "modules 0 "),
    "another entry": (swapped(op(15, 5, 1, *MAIN), op(15, 5, 1, 0x6E69616E, 0)), "modules 0 "),
    "no entry": (swapped(op(15, 5, 1, *MAIN), nothing(5)), "modules 0 offset: 0"),
    "size by id": (
        swapped(op(16, 1, 17, 64, 1, 1), op(331, 1, 38, 2, 2, 2), 1),
        "modules 1 offset",
    ),
    "decoration group": (swapped(op(71, 20, 2), op(73, 20) + nothing(1)), "modules 0 offset: 0"),
    "late declaration": (swapped(op(248, 63), op(19, 63)), "modules 0 offset: 0"),
    "constant twice": (put(C, 1, "id", 0), "constants 1 id: 0"),
    "unknown capability": (swapped(op(17, 46), op(17, 6)), "pipelines 0 module: 0"),
    "half a variable": (
        swapped(op(59, 21, 22, 9), op(59, 21, 22) + nothing(1)),
        "pipelines 0 module",
    ),
    "long constant": (swapped(op(50, 4, 10, 1), op(0) + op(50, 10, 1)), "pipelines 0 module"),
    "another size": (swapped(op(71, 10, 1, 0), op(71, 10, 1, 7)), "pipelines 0 module: 0"),
    "size by no constant": (
        swapped(op(51, 6, 13, 10, 11, 12), op(51, 6, 13, 10, 11, 4)),
        "pipelines 0 ",
    ),
    "another local size": (
        swapped(op(16, 1, 17, 64, 1, 1), op(16, 1, 17, 32, 1, 1), 1),
        "pipelines 1 ",
    ),
    "push of no structure": (swapped(op(32, 21, 9, 20), op(32, 21, 9, 6)), "pipelines 0 module"),
    "push too large": (put(L, 0, "push_bytes", 36), "pipelines 0 module"),
    "push without offset": (swapped(op(72, 20, 1, 35, 16), op(72, 20, 9, 35, 16)), "pipelines 0 "),
    "push of unknown size": (swapped(op(71, 19, 6, 4), op(71, 18, 6, 4)), "pipelines 0 module"),
    "another set": (swapped(op(71, 41, 34, 0), op(71, 41, 34, 1)), "pipelines 0 module"),
    "binding outside": (swapped(op(71, 41, 33, 1), op(71, 41, 33, 4)), "pipelines 0 module"),
    "no binding": (swapped(op(71, 41, 33, 1), op(71, 9, 33, 1)), "pipelines 0 module"),
    "uniform buffer": (swapped(op(59, 25, 41, 12), op(59, 25, 41, 2)), "pipelines 0 module"),
    "another view": (put(V, 3, "view", 7), "pipelines 0 module"),
    "image of a plane": (
        swapped(op(25, 29, 5, 5, 0, 0, 0, 2, 3), op(25, 29, 5, 1, 0, 0, 0, 2, 3)),
        "pipelines",
    ),
    # Plans
    "weight's offset": (put(B, 7, "offset", 4), "buffers 7 offset: 4"),
    "weight without blob": (put(B, 7, "blob", NONE), "buffers 7 blob"),
    "weight too small": (put(B, 7, "nbytes", 252), "buffers 7 nbytes: 252"),
    "buffer leaves arena": (put(B, 6, "nbytes", 644), "buffers 6 nbytes: 644"),
    "buffer with blob": (put(B, 6, "blob", 0), "buffers 6 blob: 0"),
    "binding's buffer": (put(G, 1, "buffer", 9), "bindings 1 buffer: 9"),
    "weight written": (put(G, 1, "buffer", 7), "bindings 1 buffer: 7"),
    "storage with format": (put(G, 1, "format", 109), "bindings 1 format: 109"),
    "texels without": (put(G, 2, "format", 0), "bindings 2 format: 0"),
    "unknown format": (put(G, 2, "format", 37), "bindings 2 format: 37"),
    "storage range": (put(P, 0, "storage_range", 255), "bindings 0 buffer: 7"),
    "storage offset": (put(P, 0, "storage_alignment", 256), "bindings 4 buffer: 6"),
    "texels not whole": (put(B, 1, "nbytes", 60), "bindings 2 buffer: 1"),
    "texels, many": (put(P, 0, "texel_elements", 3), "bindings 2 buffer: 1"),
    "texel offset": (put(B, 1, "offset", 128), "bindings 2 buffer: 1"),
    "pipeline": (put(S, RICH, "pipeline", 2), "steps 2 pipeline: 2"),
    "bindings, few": (put(S, RICH, "bindings", 3), "steps 2 bindings: 3"),
    "push outside": (put(S, RICH, "push", 4), "steps 2 push: 4"),
    "features needed": (put(P, 0, "features", 0x100), "plans 0 features: 256"),
    "Vulkan too old": (word(1, 0x10400), "plans 0 vulkan"),
    "push needed": (put(P, 0, "push_bytes", 36), "plans 0 push_bytes: 36"),
    "shared memory": (put(P, 0, "shared_memory", 511), "plans 0 shared_memory: 511"),
    "group size": (put(P, 0, "group_size", 3, 1), "plans 0 group_size[0]"),
    "group invocations": (put(P, 0, "group_invocations", 31), "field group_invocations: 31"),
    "no groups": (put(S, RICH, "groups", 0, 1), "steps 2 groups[0]"),
    "groups, many": (put(S, RICH, "groups", 4, 0), "steps 2 groups[0]: 4"),
    "invocations, many": (
        both(put(P, 0, "group_count", [2**32 - 1] * 3), put(S, RICH, "groups", [65536] * 3)),
        "steps 2 groups[0]: 65536",
    ),
    "invocations, all": (
        both(
            put(P, 0, "group_count", [2**32 - 1] * 3),
            put(S, RICH, "groups", [(1 << 31) - 4, 1, 1]),
            put(S, PLAIN, "groups", [1, 1, 1]),
        ),
        "steps 6 groups[0]: 1",
    ),
    "storage buffers": (put(P, 0, "storage_buffers", 1), "plans 0 storage_buffers: 1"),
    "uniform texels": (put(P, 0, "uniform_texel_buffers", 0), "field uniform_texel_buffers: 0"),
    "storage texels": (put(P, 0, "storage_texel_buffers", 0), "field storage_texel_buffers: 0"),
    "fill's target": (put(S, FILL, "target", 9), "steps 0 target: 9"),
    "weight filled": (put(S, FILL, "target", 7), "steps 0 target: 7"),
    "weight copied to": (put(S, COPY, "target", 7), "steps 4 target: 7"),
    "fill of odd bytes": (put(B, 5, "nbytes", 254), "steps 0 target: 5"),
    "copy's source": (put(S, COPY, "source", 9), "steps 4 source: 9"),
    "copy of nothing": (put(S, COPY, "nbytes", 0), "steps 4 nbytes: 0"),
    "copy leaves source": (put(S, COPY, "source_offset", 2**64 - 32), "steps 4 source_offset"),
    "copy leaves target": (put(S, COPY, "target_offset", 193), "steps 4 target_offset: 193"),
    "copy onto another": (
        both(put(S, COPY, "source_offset", 160), put(S, COPY, "target_offset", 0)),
        "steps 4 nbytes: 64",
    ),
    "flops": (put(S, RICH, "flops", 2**64 - 1), "steps 2 flops"),
    "traffic": (put(S, RICH, "traffic", 2**64 - 1), "steps 2 traffic"),
    "submits descend": (put(U, 1, "end", 3), "submits 1 end: 3"),
    "submits beyond": (put(U, 1, "end", 8), "submits 1 end: 8"),
    "submits short": (put(U, 1, "end", 6), "plans 0 submits: 2"),
    "port's buffer": (put(T, 0, "buffer", 9), "ports 0 buffer: 9"),
    "port in another arena": (put(T, 0, "buffer", 2), "ports 0 buffer: 2"),
    "port too large": (put(T, 0, "dims", 99, 1), "ports 0 buffer: 0"),
    "port overflows": (put(T, 0, "dims", [1 << 32, 1 << 32, *[1] * 6]), "ports 0 buffer: 0"),
    "count of an input": (put(T, 0, "count", 4), "ports 0 count: 4"),
    "count's buffer": (put(T, 2, "count", 9), "ports 2 count: 9"),
    "count in another arena": (put(T, 2, "count", 0), "ports 2 count: 0"),
    "open axis": (put(T, 2, "open_axis", 2), "ports 2 open_axis: 2"),
    "axis in front": (put(T, 2, "dims", [2, 12, *[1] * 6]), "ports 2 dims[i]: 2"),
    "axis behind": (put(T, 0, "dims", 2, 2), "ports 0 dims[i]: 2"),
    "state's input": (put(H, 0, "input", 3), "states 0 input: 3"),
    "state's output": (put(H, 0, "output", 1), "states 0 output: 1"),
    "state of nothing": (put(H, 0, "nbytes", 0), "states 0 nbytes: 0"),
    "state too large": (
        both(put(H, 0, "nbytes", 65), put(H, 0, "blob", NONE)),
        "states 0 nbytes: 65",
    ),
    "state larger": (both(put(H, 0, "nbytes", 96), put(B, 1, "nbytes", 96)), "states 0 nbytes: 96"),
    "state's blob": (put(H, 0, "blob", 9), "states 0 blob: 9"),
    "state's first value": (put(H, 0, "blob", 0), "states 0 blob: 0"),
    # Sums of work: those of a run, which closing a net waits for, and what the host looks through
    "ports, many": (grown(T, 2000, put(P, 0, "ports", 1025)), "plans 0 ports: 1025"),
    "port's long name": (long_name, "ports 0 name"),
    "examples, many": (put(P, 0, "examples", 4), "plans 0 examples: 4"),
    "blobs over others": (
        both(put(D, 1, "offset", 0), put(D, 1, "nbytes", 768)),
        "blobs 1 nbytes: 768",
    ),
    "fill, large": (
        both(put(P, 0, "arenas", BIG, 2), put(B, 5, "nbytes", 1 << 40)),
        "steps 0 target: 5",
    ),
    "copy, large": (
        both(
            put(P, 0, "arenas", BIG),
            put(B, 0, "nbytes", 1 << 40),
            put(B, 2, "nbytes", 1 << 40),
            put(S, 5, "source", 0),
            put(S, 5, "source_offset", 0),
            put(S, 5, "nbytes", 1 << 40),
        ),
        "steps 5 target: 2",
    ),
    "port, large": (
        both(
            put(P, 0, "arenas", BIG),
            put(B, 0, "nbytes", 1 << 40),
            put(T, 0, "dims", [1 << 38, *[1] * 7]),
        ),
        "ports 0 buffer: 0",
    ),
    "state, large": (
        both(
            put(P, 0, "arenas", BIG),
            put(B, 0, "nbytes", 1 << 40),
            put(B, 3, "nbytes", 1 << 40),
            put(H, 0, "input", 0),
            put(H, 0, "blob", NONE),
            put(H, 0, "nbytes", 1 << 40),
        ),
        "states 0 nbytes",
    ),
    "example behind much work": (
        both(
            put(P, 0, "group_count", [2**32 - 1] * 3),
            put(S, RICH, "groups", [(1 << 31) - 8, 1, 1]),
            put(S, PLAIN, "groups", [1, 1, 1]),
        ),
        "examples 0 blob",
    ),
    "example's port": (put(E, 0, "port", 3), "examples 0 port: 3"),
    "example's size": (put(E, 0, "blob", 1), "examples 0 blob: 1"),
}
