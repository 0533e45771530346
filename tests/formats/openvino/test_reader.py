"""Records read from .xml, and refusal of files that contradict themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.openvino_writer import Net

from vknn.errors import InputError, ModelFormatError, ShapeError, UnsupportedLayerError
from vknn.formats import load
from vknn.graph import DType
from vknn.session import Session


def simple(version: int = 7) -> Net:
    """data -> ReLU y."""
    net = Net(version)
    net.layer("ReLU", [net.input("data", (1, 2, 3))], [(1, 2, 3)], name="y")
    return net


def run(path: Path, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    with Session(path, device="numpy") as session:
        return session.run(feeds)


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_every_version(version: int, tmp_path: Path) -> None:
    with Session(simple(version).save(tmp_path), device="numpy") as session:
        assert [(s.name, s.shape, s.dtype) for s in session.inputs] == [
            ("data", (1, 2, 3), DType.FLOAT32)
        ]
        assert [(s.name, s.shape) for s in session.outputs] == [("y", (1, 2, 3))]
        found = session.run({"data": np.full((1, 2, 3), -1, np.float32)})
    assert not found["y"].any()


def test_order_ids_and_ports_are_free(tmp_path: Path) -> None:
    text = """<!-- made by hand --><net version="4" precision="FP16"><edges>
      <edge from-layer="30" from-port="9" to-layer="-4" to-port="8"/>
      <edge from-layer="7" from-port="2" to-layer="-4" to-port="5"/></edges><layers>
      <layer name="y" id="-4" type="cOnCaT"><data axis="0" what="ever"/>
        <input><port id="8"><dim>1</dim></port><port id="5"><dim> 2 </dim></port></input>
        <output><port id="6"><dim>3</dim></port></output></layer>
      <layer name="b" id="30" type="input"><output><port id="9"><dim>1</dim></port></output></layer>
      <layer name="a" id="7" type="INPUT" precision="I32"><output><port id="2"><dim>2</dim></port>
      </output></layer></layers></net>"""
    path = tmp_path / "net.xml"
    path.write_text(text)
    with Session(path, device="numpy") as session:
        assert [(s.name, s.dtype) for s in session.inputs] == [
            ("b", DType.FLOAT32), ("a", DType.INT32)
        ]  # fmt: skip
        found = session.run({"a": np.array([1, 2]), "b": np.array([3.5])})
    assert np.array_equal(found["y"], [1, 2, 3.5])  # the ports' ids decide the order


def test_ports_in_several_elements(tmp_path: Path) -> None:
    """The notation's own example of Squeeze writes each port in an <input> of its own."""
    net = Net()
    x, y = net.input("x", (1, 2)), net.input("y", (3, 2))
    net.layer("Concat", [x, y], [(4, 2)], {"axis": 0}, name="z")
    net.layers[2] = net.layers[2].replace('<port id="1">', '</input><input><port id="1">')
    found = run(net.save(tmp_path), x=np.zeros((1, 2)), y=np.ones((3, 2)))
    assert np.array_equal(found["z"][:, 0], [0, 1, 1, 1])


def test_blobs_of_the_first_versions(tmp_path: Path) -> None:
    """Attributes in <crop_data>, weights right in the layer, precision of the net."""
    text = """<net version="2" precision="FP16"><layers>
      <layer id="0" name="x" type="Input"><output><port id="0"><dim>1</dim><dim>2</dim></port>
      </output></layer>
      <layer id="1" name="y" type="Activation"><activation_data type="prelu"/>
        <input><port id="0"><dim>1</dim><dim>2</dim></port></input>
        <output><port id="1"><dim>1</dim><dim>2</dim></port></output>
        <weights offset="2" size="4"/></layer></layers>
      <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""
    path = tmp_path / "net.xml"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(np.array([9, 2, 3], np.float16).tobytes())
    found = run(path, x=np.array([[-1, -1]], np.float32))
    assert found["y"].dtype == np.float32
    assert np.array_equal(found["y"], [[-2, -3]])


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1.5, -2], np.float16), "float32"), (np.array([1.5, -2], np.float32), "float32"),
        (np.array([7, -1], np.int32), "int32"), (np.array([7, -(1 << 40)]), "int64"),
        (np.array([7, -1], np.int16), "int16"), (np.array([7, -1], np.int8), "int8"),
        (np.array([7, 255], np.uint8), "uint8"), (np.array([True, False]), "bool"),
    ],
)  # fmt: skip
def test_constants_of_every_precision(array: np.ndarray, dtype: str, tmp_path: Path) -> None:
    net = simple()
    net.blob += b"\1"  # nothing is aligned
    net.const(array, name="c")
    found = run(net.save(tmp_path), data=np.zeros((1, 2, 3)))["c"]
    assert found.dtype == np.dtype(dtype)
    wanted = np.maximum(array, -(1 << 31)) if dtype == "int64" else array  # 64 bits saturate
    assert np.array_equal(found, wanted.astype(dtype))


def test_scalars_keep_their_shape(tmp_path: Path) -> None:
    net = Net()
    net.layer("ReLU", [net.input("data", ())], [()], name="y")
    found = run(net.save(tmp_path), data=np.float32(3))
    assert found["y"].shape == () and found["y"] == 3


@pytest.mark.device
def test_outputs_are_what_nobody_reads(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2, 4))
    lone = net.input("lone", (2,))
    parts = net.layer("Split", [x], [(2, 1), (2, 3)], {"axis": 1}, name="s")
    net.layer("ReLU", [parts[0]], [(2, 1)], name="y")
    assert lone.dims == (2,)
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4), "lone": np.array([5, 6.5])}
    net.const(np.int32([4, 5]), name="c")
    path = net.save(tmp_path)
    for device in ("numpy", shared_device()):
        with Session(path, device=device) as session:
            found = session.run(feeds)
        assert list(found) == ["lone", "s.1", "y", "c"]
        assert np.array_equal(found["lone"], [5, 6.5])
        assert np.array_equal(found["s.1"], feeds["x"][:, 1:])
        assert np.array_equal(found["c"], [4, 5])


def test_integer_inputs(tmp_path: Path) -> None:
    net = Net()
    net.layer("Reshape", [net.input("i", (2, 2), "I64")], [(4,)], {"dim": [-1]}, precision="I64")
    net.layer("ReLU", [net.input("u", (2,), "U8")], [(2,)], name="float")
    path = net.save(tmp_path)
    with Session(path, device="numpy") as session:
        assert [s.dtype for s in session.inputs] == [DType.INT64, DType.UINT8]
        found = session.run({"i": np.array([[1, 2], [3, 4]]), "u": np.array([1, 255])})
        assert found["reshape_1"].dtype == np.int64
        assert found["float"].dtype == np.float32
        with pytest.raises(InputError, match="'u' takes uint8"):
            session.run({"i": np.zeros((2, 2)), "u": np.array([1, 256])})
        with pytest.raises(InputError, match="'i'"):
            session.run({"i": np.full((2, 2), 1 << 40), "u": np.array([1, 2])})


@pytest.mark.device
@pytest.mark.parametrize("precision", ["FP32", "FP16", "I64", "I32", "I16", "I8", "U8", "BOOL"])
def test_inputs_of_every_precision(precision: str, tmp_path: Path) -> None:
    """As they are, moved, and in a layer of floats; the same on both backends."""
    net = Net()
    x = net.input("x", (2, 3), precision)
    moved = net.layer("Reshape", [x], [(3, 2)], {"dim": (3, -1)}, name="moved", precision=precision)
    net.layer("ReLU", moved, [(3, 2)], {"negative_slope": 2}, name="float")
    net.layer("ReLU", [x], [(2, 3)], {"negative_slope": 2}, name="same", precision=precision)
    path = net.save(tmp_path)
    dtype = load(path).inputs[0].dtype
    array = np.array([[0, 1, -2], [3, -4, 5]]).astype(dtype)
    twice = np.where(array.astype(np.float32) < 0, 2 * array.astype(np.float32), array)
    for device in ("numpy", shared_device()):
        with Session(path, device=device) as session:
            found = session.run({"x": array})
        assert found["float"].dtype == np.float32
        assert found["same"].dtype == dtype
        assert np.array_equal(found["float"], twice.reshape(3, 2))
        assert np.array_equal(found["same"], twice.astype(dtype))


def test_other_shapes_than_the_files(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 2, 3))
    whole = net.layer("Concat", [x, x], [(1, 4, 3)])[0]
    net.layer("Flatten", [whole], [(1, 12)], name="y")
    path = net.save(tmp_path)
    assert run(path, x=np.zeros((5, 2, 7)))["y"].shape == (5, 28)
    with pytest.raises(InputError, match=r"the model says \[1, 2, 3\]"):
        run(path, x=np.zeros((5, 2)))


def test_sizes_that_only_the_file_states(tmp_path: Path) -> None:
    net = Net()
    net.layer("Slice", [net.input("x", (2, 4))], [(2, 1), (2, 3)], name="s")
    path = net.save(tmp_path)
    assert run(path, x=np.zeros((9, 4)))["s.1"].shape == (9, 3)
    with pytest.raises(UnsupportedLayerError, match=r"layer 's' \(Slice\).*other shapes"):
        run(path, x=np.zeros((2, 8)))


# --- the weights file -----------------------------------------------------------------------------


def test_weights_beside_and_elsewhere(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2,))
    net.layer("Concat", [x, net.const(np.float32([3, 4]))], [(4,)], {"axis": 0}, name="y")
    path = net.save(tmp_path)
    other = path.with_suffix(".bin").rename(tmp_path / "other")
    with pytest.raises(ModelFormatError, match=r"net\.bin: the weights cannot be read: no such"):
        Session(path, device="numpy")
    with Session(path, other, device="numpy") as session:
        assert np.array_equal(session.run({"x": np.zeros(2)})["y"], [0, 0, 3, 4])


def test_weights_that_nobody_needs_may_be_missing(tmp_path: Path) -> None:
    path = simple().save(tmp_path)
    path.with_suffix(".bin").unlink()
    assert run(path, data=np.zeros((1, 2, 3)))["y"].shape == (1, 2, 3)


@pytest.mark.parametrize("place", ['offset="0" size="16"', 'offset="5" size="4"',
                                   'offset="9223372036854775807" size="8"',
                                   'offset="18446744073709551612" size="8"',
                                   'offset="-4" size="8"', 'offset="0" size="-8"',
                                   'offset="0"', 'offset="a" size="8"'])  # fmt: skip
def test_blobs_outside_of_the_file(place: str, tmp_path: Path) -> None:
    net = simple()
    net.const(np.float32([1, 2]), name="c")
    path = net.save(tmp_path)
    path.write_text(path.read_text().replace('offset="0" size="8"', place))
    with pytest.raises(ModelFormatError, match=r"'c'|<custom>"):
        load(path)


def test_blobs_of_another_size(tmp_path: Path) -> None:
    net = simple()
    net.const(np.float32([1, 2, 3]), name="c")
    path = net.save(tmp_path)
    path.write_text(path.read_text().replace('size="12"', 'size="8"'))
    with pytest.raises(ShapeError, match=r"layer 'c' \(Const\): custom holds 2 elements, not 3"):
        run(path, data=np.zeros((1, 2, 3)))
    path.write_text(path.read_text().replace('size="8"', 'size="9"'))
    with pytest.raises(ShapeError, match="9 bytes, no whole number of FP32"):
        run(path, data=np.zeros((1, 2, 3)))


# --- nets that contradict themselves --------------------------------------------------------------

GOOD = simple().xml()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('from-layer="0"', 'from-layer="5"', "names the layer 5, which does not exist"),
        ('from-port="0"', 'from-port="3"', "layer 'data': an edge names output port 3"),
        ('to-port="0"', 'to-port="1"', "layer 'y': an edge names input port 1"),
        ('to-port="0"', 'to-port="x"', "has 'x' as to-port"),
        (' to-port="0"', "", "<edge> has no to-port"),
        ('<edge from-layer="0"', '<edge from-layer="1" from-port="1" to-layer="1" to-port="0"/>'
         '<edge from-layer="0"', "two edges lead to input port 0"),
        ("<edges>", "<nothing>", "mismatched tag"),
        ('<layer id="1"', '<layer id="0"', "two layers have the id 0"),
        ('name="y"', 'name="data"', "two layers have this name"),
        ('id="1" name', 'id="1e3" name', "<layer> has '1e3' as id"),
        ('type="ReLU"', "", "layer 'y': has no type"),
        ('type="ReLU"', 'type="Foo"', r"1 unsupported layer.*Foo \(layer 'y'\)"),
        ('precision="FP32"><output>', 'precision="Q78"><output>', "unknown precision 'Q78'"),
        ("<dim>3</dim>", "<dim>0</dim>", "'0' is no dim"),
        ("<dim>3</dim>", "<dim>-1</dim>", "'-1' is no dim"),
        ("<dim>3</dim>", "<dim>three</dim>", "'three' is no dim"),
        ("<dim>3</dim>", f"<dim>{1 << 62}</dim>", "absurdly large"),
        ("<dim>3</dim>", "<dim>3</dim>" * 20, "has 22 dims"),
        ('<port id="1">', '<port id="1"/><port id="1">', "two ports have the id 1"),
        ('version="7"', 'version="1"', "is OpenVINO IR version 1; vknn reads versions 2 to 7"),
        ('version="7"', 'version="10"', "version 10, .* opsets; .*generate_deprecated_IR_V7"),
        ('version="7"', 'version="11"', "version 11, which holds operations of opsets"),
        ('version="7"', "", "<net> has no version"),
        ('version="7"', 'version="seven"', "has the version 'seven'"),
        ('type="ReLU"', 'type="ReLU" version="opset1"', "is ReLU of opset1"),
        ("<layers>", "<layer>", "mismatched tag"),
        ("<output><port", "<output><port", ""),
    ],
)  # fmt: skip
def test_wrong_nets(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = tmp_path / "net.xml"
    path.write_text(GOOD.replace(old, new, 1))
    if not said:
        load(path)
        return
    with pytest.raises((ModelFormatError, UnsupportedLayerError), match=said) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_edges_whose_ends_differ(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2, 3))
    net.layer("ReLU", [x], [(2, 3)], name="y")
    net.layers[1] = net.layers[1].replace("<dim>3</dim>", "<dim>4</dim>", 1)
    said = r"layer 'y': input port 0 of shape \[2, 4\] is fed by layer 'x', port 0, of shape \[2, 3"
    with pytest.raises(ModelFormatError, match=said):
        load(net.save(tmp_path))


def test_circles_name_their_layers(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2,))
    net.layer("Concat", [x, (2,)], [(4,)], {"axis": 0}, name="first")
    net.layer("ReLU", [(4,)], [(2,)], name="second")
    net.edges += [
        '<edge from-layer="1" from-port="2" to-layer="2" to-port="0"/>',
        '<edge from-layer="2" from-port="1" to-layer="1" to-port="1"/>',
    ]
    with pytest.raises(ModelFormatError, match="'first', 'second' feed one another in a circle"):
        load(net.save(tmp_path))


def test_ports_that_nothing_feeds(tmp_path: Path) -> None:
    net = Net()
    net.layer("Concat", [net.input("x", (2,)), (2,)], [(4,)], {"axis": 0}, name="y")
    with pytest.raises(ModelFormatError, match="layer 'y': no edge leads to input port 1"):
        load(net.save(tmp_path))


def test_numbers_of_ports(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2,))
    net.layer("ReLU", [x, x], [(2,)], name="y")
    with pytest.raises(ModelFormatError, match="layer 'y': ReLU takes 1 inputs, not 2"):
        load(net.save(tmp_path))


def test_all_unknown_layers_at_once(tmp_path: Path) -> None:
    net = simple()
    net.layer("Foo", [], [(1,)])
    net.layer("Bar", [], [(1,)])
    with pytest.raises(UnsupportedLayerError, match=r"2 unsupported.*Foo.*Bar") as caught:
        load(net.save(tmp_path))
    assert len(caught.value.layers) == 2


def test_shapes_that_do_not_follow(tmp_path: Path) -> None:
    net = Net()
    net.layer("ReLU", [net.input("x", (2, 3))], [(3, 2)], name="y")
    said = r"layer 'y' \(ReLU\): output 0 has the shape \[2, 3\], the file says \[3, 2\]"
    with pytest.raises(ShapeError, match=said):
        run(net.save(tmp_path), x=np.zeros((2, 3)))


def test_attributes_that_are_wrong(tmp_path: Path) -> None:
    for attributes, said in (
        ({"type": "gelu"}, "type is 'gelu', not one of sigmoid"),
        ({"type": "elu", "alpha": "1,5"}, "alpha is '1,5', not a number"),
        ({"type": "clamp", "min": 2, "max": 1}, "min 2.0 is above max 1.0"),
    ):
        net = Net()
        net.layer("Activation", [net.input("x", (2,))], [(2,)], attributes, name="y")
        with pytest.raises(ShapeError, match=rf"layer 'y' \(Activation\): {said}"):
            run(net.save(tmp_path), x=np.zeros(2))


def test_left_over_bytes_of_weights_are_warned_of(tmp_path: Path) -> None:
    path = simple().save(tmp_path)
    path.with_suffix(".bin").write_bytes(bytes(12))
    with pytest.warns(RuntimeWarning, match=r"\.bin: 12 of 12 bytes are left over"):
        found = run(path, data=np.ones((1, 2, 3), np.float32))
    assert found["y"].all()
