"""Floors that compiled kernels should keep, and which dispatches of a static profile do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vknn.profiling.static_entry import StaticEntry

#: Bytes of machine code by a number that only that driver gives: half of the instruction cache of
#: RDNA (32 KB) for RADV; NVK's instructions take 16 bytes.
MOST_CODE = {"VGPRs": 16 << 10, "Max warps/SM": 32 << 10}
#: Waves a SIMD on RDNA, of up to 16 (20 on the first).
RDNA_WAVES = 4
#: Waves a SIMD on older GPUs of AMD's, of 10.
GCN_WAVES = 2
#: Warps a multiprocessor, of 48 or 64.
NVIDIA_WARPS = 16


def waves_in_flight(waves: int, subgroup_size: int, *, rdna: bool) -> int:
    """Waves of a SIMD from the driver's number: RADV counts waves of 32 lanes on RDNA."""
    return waves * 32 // subgroup_size if rdna and subgroup_size else waves


def flags(
    numbers: Mapping[str, int | None],
    statistics: Mapping[str, float],
    subgroup_size: int,
    *,
    rdna: bool,
) -> tuple[str, ...]:
    """Floors that a compiled kernel is below: "spills", "scratch", "large code", "few waves".

    Args:
        numbers: "spills", "scratch", "code" and "waves" as the driver counts them.
        statistics: All numbers of the driver by its own names, which say whose it is.
        subgroup_size: Lanes of a subgroup.
        rdna: Whether the device is one of AMD's from RDNA on.
    """
    found = [name for name in ("spills", "scratch") if numbers.get(name)]
    limit = next((most for name, most in MOST_CODE.items() if name in statistics), None)
    if limit is not None and (numbers.get("code") or 0) > limit:
        found.append("large code")
    waves = numbers.get("waves")
    if waves is not None:
        floor, held = _floor(statistics, rdna), waves_in_flight(waves, subgroup_size, rdna=rdna)
        if held < floor:
            found.append("few waves")
    return tuple(found)


def violations(entries: Iterable[StaticEntry]) -> list[str]:
    """Floors that dispatches are below, each once and sorted: "kernel label: flag".

    Labels are cut before " + ", where the operators begin that a kernel applies at its end.
    """
    return sorted(
        {
            f"{entry.kernel} {entry.label.partition(' + ')[0]}: {flag}"
            for entry in entries
            for flag in entry.flags
        }
    )


def _floor(statistics: Mapping[str, float], rdna: bool) -> int:
    if "Max warps/SM" in statistics:
        return NVIDIA_WARPS
    if "Subgroups per SIMD" in statistics:
        return RDNA_WAVES if rdna else GCN_WAVES
    return 0
