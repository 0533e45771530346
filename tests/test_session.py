"""Sessions: inputs are checked, programs cached by shape, everything released."""

import gc
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import vknn
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.runtime import live_objects

NET = """7767517
4 4
Input       data  0 1 data 0=8 1=8 2=3
Convolution conv  1 1 data mid 0=5 1=3 4=1 5=1 6=135 9=1
Pooling     pool  1 1 mid pooled 0=1 4=1
Softmax     prob  1 1 pooled prob
"""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.param"
    path.write_text(NET)
    write_random_weights(path, path.with_suffix(".bin"))
    return path


def picture(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.device
def test_runs_on_both_backends_and_they_agree(net):
    with vknn.Session(net) as device, vknn.Session(net, device="numpy") as host:
        x = {"data": picture(3, 8, 8)}
        a, b = device.run(x), host.run(x)
        assert a["prob"].shape == (5,)
        assert a["prob"].dtype == np.float32
        np.testing.assert_allclose(a["prob"], b["prob"], rtol=1e-5)
        assert set(device.placement.values()) == {"vulkan"}
        assert set(host.placement.values()) == {"host"}


def test_a_program_is_made_once_for_each_shape(net):
    with vknn.Session(net) as session:
        first = session._engine.program({"data": picture(3, 8, 8)})
        assert session._engine.program({"data": picture(3, 8, 8, seed=1)}) is first
        other = session._engine.program({"data": picture(3, 9, 7)})
        assert other is not first
        assert session.run({"data": picture(3, 9, 7)})["prob"].shape == (5,)


def test_old_programs_are_closed(net):
    with vknn.Session(net) as session:
        for width in range(4, 16):
            session.run({"data": picture(3, 8, width)})
        counts = live_objects()
        for width in range(4, 16):
            session.run({"data": picture(3, 8, width)})
        assert live_objects() == counts


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "data"),
        ({"data": picture(3, 8, 8), "more": picture(1)}, "more"),
        ({"dta": picture(3, 8, 8)}, "dta"),
        ({"data": picture(3, 8, 8).astype(np.complex64)}, "complex64"),
        ({"data": picture(1, 1, 3, 8, 8)}, "data"),
        ({"data": np.array(["a"])}, "data"),
    ],
)
def test_wrong_inputs_are_named(net, feeds, message):
    with vknn.Session(net) as session, pytest.raises(vknn.InputError, match=message):
        session.run(feeds)


def test_a_shape_that_a_layer_cannot_take_is_named(net):
    with vknn.Session(net) as session, pytest.raises(vknn.ShapeError, match="conv"):
        session.run({"data": picture(4, 8, 8)})


@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_errors_of_shapes_name_the_file(tmp_path, device):
    """Where the network is built, and where a layer meets shapes that data decide."""
    path = tmp_path / "uneven.param"
    path.write_text(
        "7767517\n4 4\nInput a 0 1 a\nInput b 0 1 b\n"
        "BinaryOp sum 2 1 a b out 0=0\nReLU relu 1 1 out y\n"
    )
    with vknn.Session(path, device=device) as session:
        with pytest.raises(vknn.ShapeError, match=r"uneven\.param: .*layer 'sum'"):
            session.run({"a": picture(3, 8, 8), "b": picture(3, 5, 8)})
        engine = session._engine
        program = engine.program({"a": picture(3, 8, 8), "b": picture(3, 8, 8)})

        def refuse(*_, **__):
            raise vknn.ShapeError("layer 'late': does not fit")

        program.run = refuse
        with pytest.raises(vknn.ShapeError, match=r"uneven\.param: layer 'late': does not fit"):
            session.run({"a": picture(3, 8, 8), "b": picture(3, 8, 8)})


def test_outputs_belong_to_the_caller(net):
    with vknn.Session(net) as session:
        first = session.run({"data": picture(3, 8, 8)})["prob"]
        kept = first.copy()
        session.run({"data": picture(3, 8, 8, seed=5)})
        np.testing.assert_array_equal(first, kept)


def test_a_closed_session_says_so(net):
    session = vknn.Session(net)
    session.close()
    session.close()
    with pytest.raises(vknn.VknnError, match="closed"):
        session.run({"data": picture(3, 8, 8)})


def test_unknown_precision_is_refused(net):
    with pytest.raises(vknn.VknnError, match="fp8"):
        vknn.Session(net, precision="fp8")


def test_names_to_switch_off(net):
    for disable in ("winograd, fusion", ["winograd", "fusion"], frozenset(("fusion", "winograd"))):
        with vknn.Session(net, disable=disable) as session:
            assert {"winograd", "fusion"} <= session._engine.target.options.disabled
    for disable in ("winogard", ["fusion", "winogard"]):
        with pytest.raises(vknn.VknnError, match="disable names winogard; known are texel, "):
            vknn.Session(net, disable=disable)
    for disable in (None, 3, b"winograd", ["fusion", None]):
        with pytest.raises(vknn.VknnError, match="disable takes names of parts, not (None|3|119);"):
            vknn.Session(net, disable=disable)


@pytest.mark.device
def test_abilities_of_the_device_are_switched_off(net):
    """Staging and texel reads are the device's, not the plan's; who opened it before keeps them."""
    with vknn.open_device() as device:
        whole = device.limits
        with vknn.Session(net, device="vulkan", disable="texel, unified, winograd") as session:
            limits = session.device.limits
            assert (limits.preferred_access, limits.unified_memory) == ("storage", False)
            assert session.device.shared is not device.shared
            (segment,) = session._engine.program({"data": picture(3, 8, 8)}).segments
            assert segment.executable._host_io.staged == (True, True)
        for disable in ((), "winograd"):
            with vknn.Session(net, device="vulkan", disable=disable) as session:
                assert session.device.shared is device.shared
        with vknn.Session(net, device=device, disable="unified") as session:
            assert session.device.limits == whole


def test_wrong_sizes_are_told_of_the_input(tmp_path):
    path = tmp_path / "net.param"
    path.write_text(
        "7767517\n4 5\nInput data 0 1 data 0=8 1=8 2=3\nSplit s 1 2 data a b\n"
        "Pooling pool 1 1 a small 0=0 1=2 2=2\nConcat cat 2 1 small b out 0=0\n"
    )
    with vknn.Session(path, device="numpy") as session:
        message = (
            r"net\.param: input 'data' has the shape \(3, 10, 12\), "
            r"the file suggests \(3, 8, 8\): layer"
        )
        with pytest.raises(vknn.InputError, match=message) as caught:
            session.run({"data": picture(3, 10, 12)})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_hints_and_views(net):
    with vknn.Session(net, device="numpy") as session:
        assert [(s.name, s.shape, s.hint) for s in session.inputs] == [("data", None, (3, 8, 8))]
        text = "net.param: data float32[any, such as 3, 8, 8] -> prob float32[any], fp32 on NumPy"
        assert repr(session) == f"<vknn.Session {text}>"
        view = session._repr_html_()
        assert "<td>input</td><td>data</td><td>float32</td><td>any, such as 3, 8, 8</td>" in view
    assert repr(session).endswith(", closed>")


def test_unknown_device_is_refused(net):
    with pytest.raises(vknn.DeviceError):
        vknn.Session(net, device="vulkan:77")


def test_without_a_driver_auto_runs_on_numpy_and_says_so_once(net, monkeypatch):
    import vknn.opening as module

    def refuse(_):
        raise vknn.DeviceError("no Vulkan driver")

    monkeypatch.delenv("VKNN_DEVICE", raising=False)
    monkeypatch.setattr(module, "open_device", refuse)
    monkeypatch.setattr(module, "_warned_without_device", False)
    with pytest.warns(RuntimeWarning, match="NumPy"):
        session = vknn.Session(net)
    assert session.run({"data": picture(3, 8, 8)})["prob"].shape == (5,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vknn.Session(net).close()
    with pytest.raises(vknn.DeviceError):
        vknn.Session(net, device="vulkan")


def test_threads_may_share_a_session(net):
    inputs = [picture(3, 8, 8, seed=i) for i in range(8)]
    with vknn.Session(net) as session:
        expected = [session.run({"data": x})["prob"] for x in inputs]
        results = [None] * len(inputs)

        def work(i):
            for _ in range(5):
                results[i] = session.run({"data": inputs[i]})["prob"]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, want)


#: A process of its own: one that has run thousands of tests takes memory anew at any time.
SESSIONS = """
import gc, os, sys
import numpy as np
import vknn
from vknn.runtime import live_objects

def once():
    with vknn.Session(sys.argv[1], device="vulkan") as session:
        session.run({"data": np.ones((3, 8, 8), np.float32)})

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

for _ in range(20):
    once()
before = resident()
for _ in range(200):
    once()
print(live_objects(), resident() - before < 8 << 20)
"""


@pytest.mark.device
@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_two_hundred_sessions_leave_nothing_behind(net):
    command = [sys.executable, "-c", SESSIONS, str(net)]
    # The validation layer keeps memory of its own.
    variables = {**os.environ, "VKNN_VALIDATE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert (done.returncode, done.stdout) == (0, "{} True\n"), done.stdout + done.stderr


@pytest.mark.usefixtures("nothing_forgotten")
@pytest.mark.parametrize("device", ["auto", "no such device", "numpy"])
def test_of_two_errors_the_models_is_shown(tmp_path, device):
    """Model and device are opened at the same time; nothing stays open."""
    before = live_objects()
    with pytest.raises(vknn.ModelFormatError, match=r"absent\.param"):
        vknn.Session(tmp_path / "absent.param", device=device)
    assert live_objects() == before


def test_garbage_collection_is_left_as_it_was(net):
    feeds = {"data": picture(3, 8, 8)}
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with vknn.Session(net, device="numpy") as session:
                session.run(feeds)
            assert gc.isenabled() is enabled
        finally:
            gc.enable()
