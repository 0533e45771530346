"""Modelled times: machine code read, cycles counted, bounds told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vknn.lowering.kernels.convolution.register_tiles import _SLOW_DOTS
from vknn.plan import DeviceLimits
from vknn.profiling.invocation import Counts, HotLoop, Tally
from vknn.profiling.modelled import ASSUMPTIONS, GpuMachine, ModelledTime, Work, gpu_machine
from vknn.profiling.modelled.assembly import AsmLine, inner_loops, lines_of, parsed
from vknn.profiling.modelled.rdna import kernel_cost
from vknn.profiling.modelled.times import from_code, from_counts, of_transfer
from vknn.runtime.machines import is_rdna

#: As RADV prints it: a loop of two loads, a wait, four multiply-adds, an integer product.
TEXT = """BB0:
	s_load_dwordx4 s[4:7], s[2:3], null                         ; f4080101 fa000000
	v_mov_b32_e32 v4, 0                                         ; 7e080280
	s_branch BB1                                                ; bf820000
	s_nop 0                                                     ; bf800000
	(then repeated 3 times)
BB1:
	v_mul_lo_u32 v1, v0, s9                                     ; d5690001 00001300
	buffer_load_dwordx4 v[8:11], v1, s[4:7], 0 offen            ; e0381000 80010801
	s_buffer_load_dwordx4 s[12:15], s[4:7], s8                  ; f4280302 10000000
	s_waitcnt vmcnt(0) lgkmcnt(0)                               ; bf8c0070
	v_fmac_f32_e32 v4, s12, v8                                  ; 5608100c
	v_fmac_f32_e32 v4, s13, v9                                  ; 5608120d
	v_fmac_f32_e32 v5, s14, v10                                 ; 560a140e
	v_fmac_f32_e32 v5, s15, v11                                 ; 560a160f
	s_cmp_lt_i32 s8, s10                                        ; bf040a08
	s_cbranch_scc1 BB1                                          ; bf85fff0
BB2:
	buffer_store_dword v4, v0, s[4:7], 0 offen                  ; e0701000 80010400
	s_endpgm                                                    ; bf810000
"""
#: The same with a loop before it that only adds.
ADDING = TEXT.replace(
    "BB1:",
    """BB3:
	buffer_load_dwordx2 v[8:9], v1, s[4:7], 0 offen             ; e0341000 80010801
	s_waitcnt vmcnt(0)                                          ; bf8c3f70
	v_fma_mix_f32 v4, 1.0, v8, v4 op_sel_hi:[0,1,0]             ; cc200004 14120cf2
	v_fma_mix_f32 v5, 1.0, v9, v5 op_sel_hi:[0,1,0]             ; cc200005 14160cf2
	s_cbranch_scc1 BB3                                          ; bf85fff0
BB1:""",
)
NAVI21 = DeviceLimits(name="AMD Radeon RX 6800 (RADV NAVI21)", kind="discrete")


def machine() -> GpuMachine:
    found = gpu_machine(NAVI21)
    assert found is not None
    return found


def work(waves: int, **more: int) -> Work:
    each = Tally(multiply_adds=4, loads=2, load_bytes=32)
    counts = Counts(Tally().plus(each, 100), HotLoop(100, each), (64, 1, 1))
    known = {"groups": waves, "held": 16, "nbytes": 0, "barriers": 1, **more}
    return Work(counts=counts, waves=waves, wave=64, **known)


def timed(waves: int, **more: int) -> ModelledTime:
    cost = kernel_cost(TEXT, 64, machine(), ASSUMPTIONS)
    return from_code(cost, work(waves, **more), machine(), ASSUMPTIONS)


def test_loops_of_machine_code() -> None:
    blocks = parsed(TEXT)
    assert [block.number for block in blocks] == [0, 1, 2]
    assert [line.name for line in blocks[0].lines][-1] == "s_nop"
    ((loop,),) = inner_loops(blocks)
    assert loop.number == 1 and len(lines_of([loop])) == 10


def test_cycles_of_a_loop() -> None:
    loop = kernel_cost(TEXT, 64, machine(), ASSUMPTIONS).loop
    assert loop is not None
    assert loop.multiply_adds == 4
    assert loop.vector == 4 * 2 + 8  # 64 lanes on 32: two cycles, an integer product eight
    assert loop.share == 0.5
    assert loop.cache == 16  # 64 lanes of 16 bytes, 128 a cycle for two SIMDs
    assert loop.load_bytes == 16
    # The load waits for its address, the products for the load, the next but one for the first.
    assert 220 + 8 + 8 + 8 < loop.latency < 220 + 60


def test_shared_memory_serves_whole_banks() -> None:
    """Loads of two bytes keep it as busy as those of four."""

    def shared(name: str) -> float:
        text = TEXT.replace("buffer_load", f"{name} v9, v1\n\tbuffer_load")
        loop = kernel_cost(text, 64, machine(), ASSUMPTIONS).loop
        assert loop is not None
        return loop.shared

    once = 64 * 4 / 128 * 2  # by 128 bytes a cycle for two SIMDs
    assert shared("ds_load_u16_d16") == shared("ds_load_b32") == once
    assert shared("ds_load_b64") == 2 * once


def test_a_wave_of_32_lanes_takes_half() -> None:
    loop = kernel_cost(TEXT, 32, machine(), ASSUMPTIONS).loop
    assert loop is not None and loop.vector == 4 + 4


@pytest.mark.parametrize(("generation", "cycles"), [(3, 32), (4, 16)])
def test_the_share_of_matrices_counts_cycles(generation: int, cycles: int) -> None:
    """One product of matrices beside as many other instructions as it takes cycles: half."""
    product = "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]"
    for wave, other in ((32, cycles), (64, cycles // 2)):
        lines = [product, *["v_add_f32 v30, v31, v32"] * other]
        text = "\n".join(
            ["BB0:", "\ts_nop 0", "BB1:", *(f"\t{x}" for x in lines), "\ts_cbranch_scc0 BB1"]
        )
        known = replace(machine(), rdna=generation)
        loop = kernel_cost(text, wave, known, ASSUMPTIONS).loop
        assert loop is not None and loop.share == 0.5


def test_gcn() -> None:
    """Four SIMDs of 16 lanes take turns: an instruction of a wave every four cycles at most."""
    found = gpu_machine(DeviceLimits(name="AMD Radeon RX 580 Series (RADV POLARIS10)"))
    assert found is not None and found.reads_code and (found.interval, found.shared_by) == (4, 4)
    cost = kernel_cost(TEXT, 64, found, ASSUMPTIONS)
    assert cost.loop is not None
    assert cost.loop.vector == cost.loop.issue == 4 * 4 + 16  # an integer product four times
    assert cost.loop.cache == 64  # 64 lanes of 16 bytes, 64 a cycle for four SIMDs
    # Ten instructions, and the loads, whose latency does not hang on the machine.
    first = kernel_cost(TEXT, 64, machine(), ASSUMPTIONS).loop
    assert first is not None and first.latency < cost.loop.latency < first.latency + 4 * 10


@pytest.mark.parametrize(
    ("text", "unit", "nbytes", "multiply_adds"),
    [
        ("v_fma_mix_f32 v1, v2, v3, v1 op_sel_hi:[1,1,0]", "vector", None, 1),
        ("v_pk_fma_f16 v1, v2, v3, v1", "vector", None, 2),
        ("v_dot4_i32_i8 v1, v2, v3, v1", "vector", None, 4),
        ("v_wmma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", "vector", None, 64),
        ("v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6", "vector", None, 2),
        ("v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5", "vector", None, 1),
        ("v_mul_f32_e32 v1, v2, v3", "vector", None, 0),
        ("ds_load_2addr_b64 v[0:3], v4 offset1:1", "shared", 16, 0),
        ("ds_read2_b32 v[0:1], v4 offset1:1", "shared", 8, 0),
        ("buffer_load_d16_b16 v0, v1, s[0:3], 0 offen", "memory", 2, 0),
        ("buffer_load_format_xyzw v[0:3], v1, s[0:3], 0 idxen", "memory", 16, 0),
        ("buffer_store_b128 v[0:3], v4, s[0:3], 0 offen", "memory", 16, 0),
        ("s_load_b128 s[0:3], s[4:5], 0x10", "constant", None, 0),
        ("s_delay_alu instid0(VALU_DEP_1)", "free", None, 0),
        ("s_barrier", "scalar", None, 0),
    ],
)
def test_instructions(text: str, unit: str, nbytes: int | None, multiply_adds: float) -> None:
    line = AsmLine(text)
    assert line.unit == unit and line.multiply_adds(64) == multiply_adds
    assert nbytes is None or line.nbytes == nbytes


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("s_waitcnt vmcnt(3)", {"memory": 3}),
        ("s_waitcnt vmcnt(0) lgkmcnt(1)", {"memory": 0, "any": 1}),
        ("s_wait_loadcnt 0x2", {"memory": 2}),
        ("s_wait_dscnt 0xe", {"shared": 14}),
        ("s_wait_kmcnt 0x0", {"constant": 0}),
        ("s_wait_loadcnt_dscnt 0x103", {"memory": 1, "shared": 3}),
        ("s_wait_storecnt 0x0", {}),
    ],
)
def test_waits(text: str, waits: dict[str, int]) -> None:
    assert AsmLine(text).unit == "wait" and AsmLine(text).waits == waits


def test_registers_written() -> None:
    assert AsmLine("v_fmac_f32_e32 v4, s12, v8").destinations == ("v4",)
    assert AsmLine("buffer_load_dwordx2 v[8:9], v1, s[4:7], 0").destinations == ("v8", "v9")
    assert AsmLine("v_mov_b16_e32 v30.l, v24.h").registers == ("v30", "v24")
    assert AsmLine("s_cmp_lt_i32 s8, s10").destinations == ()


def test_bounds() -> None:
    assert timed(64).bound == "too few waves"
    assert timed(240).bound == "too few waves"
    assert timed(120 * 64, held=4).bound == "latency"
    assert timed(120 * 64, held=30).bound in ("issue", "L0")
    assert timed(120 * 64, held=30, nbytes=1 << 30).bound == "memory"


def test_times_add_up() -> None:
    found = timed(120 * 64, barriers=2)
    assert found.rounds == 100 and not found.coarse and found.share == 0.5
    assert found.overhead == ASSUMPTIONS.dispatch + 2 * ASSUMPTIONS.barrier
    assert found.busy == pytest.approx(max(found.work, found.latency, found.memory))
    # 64 waves a SIMD, 100 rounds of 16 cycles, at 2.1 GHz
    assert found.work == pytest.approx(64 * 100 * 16 / 2100, rel=0.05)


def test_last_waves_are_as_few_as_there_are() -> None:
    """31 waves of a SIMD that holds 30: 30 beside each other, then one alone."""
    simds = machine().simds
    one, full = timed(simds).busy, timed(30 * simds, held=30).busy
    assert one < full < 30 * one
    assert timed(31 * simds, held=30).busy == pytest.approx(full + one)


def test_loops_that_only_add_take_time_of_their_own() -> None:
    """Their rounds are those of the bytes that loops without products load."""
    cost = kernel_cost(ADDING, 64, machine(), ASSUMPTIONS)
    assert cost.loop == kernel_cost(TEXT, 64, machine(), ASSUMPTIONS).loop
    assert cost.adding is not None and cost.adding.load_bytes == 8
    adds = HotLoop(25, Tally(loads=2, load_bytes=16))  # the compiler unrolled none of its rounds
    more = with_others(adds).latency - timed(1).latency
    assert more == pytest.approx(50 * cost.adding.latency / (machine().clock * 1e3), rel=0.1)
    assert cost.adding.latency > ASSUMPTIONS.memory_latency


def test_the_rest_of_a_loop_of_products_adds_nothing() -> None:
    """What is loaded in a second loop of products, and outside of all, is no sum's."""
    rest = HotLoop(1, Tally(multiply_adds=4, loads=3, load_bytes=4096))
    assert with_others(rest).latency == timed(1).latency


def with_others(*others: HotLoop) -> ModelledTime:
    """Time of a wave of ADDING with these loops beside the hottest."""
    found = work(1)
    counts = replace(found.counts, others=others)
    cost = kernel_cost(ADDING, 64, machine(), ASSUMPTIONS)
    return from_code(cost, replace(found, counts=counts), machine(), ASSUMPTIONS)


def test_memory_is_bytes_by_bandwidth() -> None:
    assert timed(60, nbytes=512_000_000).memory == pytest.approx(1000)


def test_fills_and_copies_begin_as_dispatches_do() -> None:
    found = of_transfer(3_000_000, 1, machine(), ASSUMPTIONS)
    assert found.bound == "memory" and not found.coarse
    assert found.memory == pytest.approx(3e6 / (machine().bandwidth * 1e3))
    assert found.overhead == ASSUMPTIONS.dispatch + ASSUMPTIONS.barrier
    assert found.time == found.memory + found.overhead
    assert of_transfer(4, 0, machine(), ASSUMPTIONS).overhead == ASSUMPTIONS.dispatch


def test_a_workgroup_does_not_draw_the_memory_alone() -> None:
    """One unit takes 64 bytes a cycle, at 2.1 GHz; with four units the memory is the limit."""
    one, two, four = (timed(n, nbytes=512_000_000).memory for n in (1, 2, 4))
    assert one == pytest.approx(512_000_000 / (64 * 2100)) and two == pytest.approx(one / 2)
    assert four == pytest.approx(1000)


def test_latencies_are_assumed() -> None:
    """Doubled latencies double what waits, and leave alone what does not."""
    few, many = work(64), work(120 * 640, held=40)
    for assumed, factor in ((ASSUMPTIONS.scaled(2), 2), (ASSUMPTIONS.scaled(0.5), 0.5)):
        cost = kernel_cost(TEXT, 64, machine(), assumed)
        found = from_code(cost, few, machine(), assumed)
        assert found.busy / timed(64).busy == pytest.approx(factor, rel=0.2)
        found = from_code(cost, many, machine(), assumed)
        assert found.work == timed(120 * 640).work
    assert "440 (memory)" in str(ASSUMPTIONS.scaled(2))


@pytest.mark.parametrize(("name", "share"), [("Adreno (TM) 740", 0.5), ("Apple M1 (G13G A0)", 1)])
def test_float16_where_it_is_packed(name: str, share: float) -> None:
    machine = gpu_machine(DeviceLimits(name=name, kind="integrated"))
    assert machine is not None
    single = Tally(multiply_adds=1 << 20)
    both = [
        from_counts(
            replace(work(1 << 10), counts=Counts(counts, None, (64, 1, 1))), machine, ASSUMPTIONS
        )
        for counts in (single, replace(single, packed=1 << 20))
    ]
    assert both[1].work / both[0].work == pytest.approx(share, rel=0.01)


def test_integer_dots_where_there_are_none() -> None:
    """An Apple GPU takes as many instructions as plans do, NVIDIA's one."""
    times = {}
    for name in ("Apple M1 (G13G A0)", "NVIDIA GeForce RTX 3090"):
        machine = gpu_machine(DeviceLimits(name=name, kind="integrated"))
        assert machine is not None
        found = work(1 << 14, held=12)
        dots, products = (
            replace(found, counts=Counts(each, None, (64, 1, 1)))
            for each in (Tally(dots=1 << 16), Tally(multiply_adds=1 << 16))
        )
        both = [from_counts(each, machine, ASSUMPTIONS).work for each in (dots, products)]
        times[name] = both[0] / both[1]
    emulated, own = times.values()
    assert emulated == pytest.approx(4 * _SLOW_DOTS, rel=0.01) and own == pytest.approx(1, rel=0.01)


def test_coarse_times() -> None:
    nvidia = gpu_machine(DeviceLimits(name="NVIDIA GeForce RTX 3090", kind="discrete"))
    assert nvidia is not None and not nvidia.rdna
    few = from_counts(replace(work(64), wave=32), nvidia, ASSUMPTIONS)
    assert few.coarse and few.share is None and few.bound == "too few waves"
    assert few.busy > 100 * ASSUMPTIONS.memory_latency / (nvidia.clock * 1e3)
    many = from_counts(replace(work(1 << 20, held=12), wave=32), nvidia, ASSUMPTIONS)
    products = (1 << 20) * 32 * 400 / (nvidia.peak * 1e3)  # microseconds at the peak
    assert products < many.work < 5 * products


def test_coarse_times_of_several_loops() -> None:
    """Each loop's rounds wait for what they load: from memory, or else from shared memory."""
    nvidia = gpu_machine(DeviceLimits(name="NVIDIA GeForce RTX 3090", kind="discrete"))
    assert nvidia is not None
    known = replace(work(1), wave=32)
    loops = {
        ASSUMPTIONS.memory_latency: Tally(loads=1, load_bytes=16, shared_loads=1),
        ASSUMPTIONS.shared_latency: Tally(shared_loads=1),
        0.0: Tally(shared_stores=1),
    }
    for waits, each in loops.items():
        counts = replace(known.counts, others=(HotLoop(30, each),))
        more = from_counts(replace(known, counts=counts), nvidia, ASSUMPTIONS)
        cycles = 30 * (waits + ASSUMPTIONS.round_instructions)
        alone = from_counts(known, nvidia, ASSUMPTIONS)
        assert more.latency - alone.latency == pytest.approx(cycles / (nvidia.clock * 1e3))
        assert more.rounds == alone.rounds


@pytest.mark.parametrize(
    ("name", "rdna"),
    [
        ("AMD Radeon RX 5700 XT (RADV NAVI10)", 1),
        ("AMD Radeon RX 6800 (RADV NAVI21)", 2),
        ("AMD Radeon Graphics (RADV NAVI31)", 3),
        ("AMD Radeon Graphics (RADV GFX1201)", 4),
        ("AMD Radeon RX 580 Series (RADV POLARIS10)", 0),
        ("Turnip Adreno (TM) 740", 0),
        ("NVK ", 0),
        ("Apple M1 (G13G A0)", 0),
    ],
)
def test_machines_of_null_devices(name: str, rdna: int) -> None:
    found = gpu_machine(DeviceLimits(name=name, kind="discrete"))
    assert found is not None and found.rdna == rdna and is_rdna(name) == bool(rdna)
    assert 300 < found.peak < 50_000


def test_unknown_machines() -> None:
    assert gpu_machine(DeviceLimits(name="Mali-G78", kind="integrated")) is None
    assert gpu_machine(DeviceLimits(name="RTX 3090 by software", kind="cpu")) is None
