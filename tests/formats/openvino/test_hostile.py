"""Malicious XML, and recognition of files by their first bytes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.openvino_writer import Net

from vknn.errors import ModelFormatError
from vknn.formats import load
from vknn.formats.openvino import xml
from vknn.formats.openvino.reader import parse_net


def simple() -> Net:
    """data -> ReLU y."""
    net = Net()
    net.layer("ReLU", [net.input("data", (1, 2, 3))], [(1, 2, 3)], name="y")
    return net


GOOD = simple().xml()
BOMB = '<!DOCTYPE net [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(10)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"<?xml version='1.0'?>{BOMB}]><net version='7'><layers>&k;</layers></net>",
         "document types, entities and external references are not allowed"),
        ('<!DOCTYPE net SYSTEM "file:///etc/passwd"><net version="7"/>', "not allowed"),
        ('<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net version="7">&x;</net>',
         "not allowed"),
        ("<net version='7'>" + "<layers>" * 500_000, "nested more than 64 deep"),
        (f"<net version='7'><layers><layer id='0' name='{'x' * (2 << 20)}'/></layers></net>",
         "longer than 1048576 characters"),
        (f"<net version='{'9' * 5000}'><layers/></net>", "has the version '999"),
        ("<net version='7'><layers>", "not well-formed XML"),
        ("<net version='7'>\x01</net>", "not well-formed XML"),
        ("<net version='7'>&nothing;</net>", "not well-formed XML"),
        ("<net version='7'><layers><layer id='0' id='1'/></layers></net>", "not well-formed XML"),
        ("<?xml version='1.0' encoding='martian'?><net version='7'/>", "."),
        ("<network version='7'/>", "an XML file"),
        ("<net version='7'/>", "<net> has no <layers>"),
        ("<net version='7'><layers/></net>", "<net> has no layers"),
    ],
    ids=range(14),
)  # fmt: skip
def test_hostile_xml(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(ModelFormatError, match=said) as caught:
        load(path)
    assert time.process_time() - start < 5
    assert len(str(caught.value)) < 400 + len(str(path))


def test_too_many_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MAX_ELEMENTS", 1000)
    with pytest.raises(ModelFormatError, match="more than 1000 XML elements"):
        parse_net(b"<net version='7'><layers>" + b"<layer/>" * 1100)


def test_deep_bodies(tmp_path: Path) -> None:
    inner = "<layers/>"
    for number in range(40):
        layer = f'<layer id="{number}" name="t" type="TensorIterator"><body>{inner}</body></layer>'
        inner = f"<layers>{layer}</layers>"
    with pytest.raises(ModelFormatError, match="nested more than"):
        parse_net(f'<net version="7">{inner}</net>'.encode())


@pytest.mark.parametrize("head", ["", "<?xml version='1.0'?>", "<!-- a --><!-- > <net -->",
                                  f"<!-- {'long ' * 2000} -->",
                                  "\n <?xml-stylesheet href='x'?>\n<!-- a -->"])  # fmt: skip
def test_files_are_known_by_their_root(head: str, tmp_path: Path) -> None:
    path = simple().save(tmp_path)
    text = head + GOOD.split("\n", 1)[1]
    for name in ("net.txt", "net"):
        other = tmp_path / name
        other.write_text(text)
        path.with_suffix(".bin").write_bytes(b"")
        assert [s.name for s in load(other).inputs] == ["data"]


def test_other_xml_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<?xml version='1.0'?><html><net/></html>")
    with pytest.raises(ModelFormatError, match="an XML file, not a model"):
        load(path)
    for encoding in ("utf-16", "utf-8-sig"):
        path.write_bytes(GOOD.split("\n", 1)[1].encode(encoding))
        assert load(path).inputs
