"""Compiling GLSL, listed variants, and the archive of an installed package."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vknn.errors import ShaderError
from vknn.runtime.spirv import glsl, modules, shaderc
from vknn.runtime.spirv import words as spv

KERNEL = """#version 450
#pragma vknn variants ACCESS=0,1 ELEM=0,1
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
INPUT4(0, x);
OUTPUT4(1, y);
void main() { STORE4(y, 0, LOAD4(x, 0) + VEC4(ADDED)); }
"""
VARIANT = (("ACCESS", "0"), ("ELEM", "1"))
REAL_ROOT = glsl.source_root()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of shaders with one kernel, "family/kernel", and its includes."""
    folder = tmp_path / "shaders"
    for name, text in {
        "family/kernel.comp": KERNEL,
        "common/tensor.glsl": '#include "common/constants.glsl"\n'
        + (REAL_ROOT / "common/tensor.glsl").read_text(),
        "common/half.glsl": (REAL_ROOT / "common/half.glsl").read_text(),
        "common/bfloat16.glsl": (REAL_ROOT / "common/bfloat16.glsl").read_text(),
        "common/constants.glsl": "#define ADDED 1\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def checkout(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """vknn believes that it runs from a checkout with these shaders."""
    monkeypatch.setattr(glsl, "checkout_root", lambda: root)
    return root


@pytest.fixture
def installed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """vknn believes that it is installed, built from these shaders; there is no compiler."""
    target = tmp_path / "_spirv"
    modules.build(root, target)
    shutil.copytree(target, tmp_path / "wheel")
    monkeypatch.setattr(glsl, "checkout_root", lambda: None)
    monkeypatch.setattr(glsl, "INSTALLED", target)
    monkeypatch.setattr(shaderc, "compiler", no_compiler)
    modules._archive.cache_clear()
    modules._packaged.cache_clear()
    return target


def no_compiler() -> shaderc.Compiler:
    raise ShaderError(shaderc.MISSING)


def reinstall(installed: Path) -> None:
    """Puts the files in place again, for a new process."""
    shutil.rmtree(installed)
    shutil.copytree(installed.parent / "wheel", installed)
    modules._archive.cache_clear()
    modules._packaged.cache_clear()


def is_spirv(module: bytes) -> bool:
    return module[:4] == b"\x03\x02\x23\x07" and len(module) % 4 == 0


@pytest.mark.glsl
@pytest.mark.parametrize("kernel", glsl.kernels(REAL_ROOT))
def test_every_kernel_compiles_in_every_variant(kernel: str) -> None:
    listed = glsl.variants(glsl.read_kernel(REAL_ROOT, kernel), kernel)
    assert all(is_spirv(modules.spirv(kernel, variant)) for variant in listed)
    # What is for GPUs alone reads storage buffers.
    assert {dict(v).get("ACCESS") for v in listed} in ({"0", "1", "2"}, {"0"}, {None})


@pytest.mark.glsl
def test_a_changed_include_is_compiled_anew(checkout: Path) -> None:
    before = modules.spirv("family/kernel", VARIANT)
    assert is_spirv(before)
    assert modules.spirv("family/kernel", VARIANT) is before
    (checkout / "common/constants.glsl").write_text("#define ADDED 2\n")
    assert modules.spirv("family/kernel", VARIANT) != before


@pytest.mark.glsl
def test_the_order_of_a_variants_defines_does_not_matter(checkout: Path) -> None:
    assert modules.spirv("family/kernel", VARIANT) == modules.spirv("family/kernel", VARIANT[::-1])


@pytest.mark.glsl
def test_a_damaged_cached_module_is_compiled_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = modules.spirv("family/kernel", VARIANT)
    for path in (checkout.parent / ".cache/spirv").glob("*.spv"):
        path.write_bytes(path.read_bytes()[:100])
    monkeypatch.setattr(modules, "_loaded", {})
    assert modules.spirv("family/kernel", VARIANT) == module


def test_variants_are_the_listed_products() -> None:
    text = "#pragma vknn variants A=0,1 B=x\n#pragma vknn variants A=2\n"
    assert glsl.variants(text, "k") == [
        (("A", "0"), ("B", "x")),
        (("A", "1"), ("B", "x")),
        (("A", "2"),),
    ]
    assert glsl.variants("", "k") == [()]


def test_variants_of_float16_have_twins_of_bfloat16() -> None:
    text = "#pragma vknn variants HALF=1\n#pragma vknn variants HALF=2 HALF_SUMS=1\n"
    half, sums = (("HALF", "1"),), (("HALF", "2"), ("HALF_SUMS", "1"))
    assert glsl.variants(text, "k") == [half, sums, (("BF16", "1"), *half)]


@pytest.mark.parametrize("pragma", ["variant A=0", "variants", "variants A", "variants A="])
def test_a_malformed_pragma_names_its_line(pragma: str) -> None:
    with pytest.raises(ShaderError, match="k:2: expected"):
        glsl.variants(f"\n#pragma vknn {pragma}", "k")


@pytest.mark.parametrize(
    "variant", [(), (("ACCESS", "2"), ("ELEM", "0")), (*VARIANT, ("MORE", "1"))]
)
@pytest.mark.parametrize("mode", ["checkout", pytest.param("installed", marks=pytest.mark.glsl)])
def test_a_variant_that_is_not_listed_is_an_error(
    mode: str, variant: glsl.Variant, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(mode)
    with pytest.raises(ShaderError, match="'family/kernel' has no variant"):
        modules.spirv("family/kernel", variant)


def test_an_unknown_kernel_is_an_error(checkout: Path) -> None:
    with pytest.raises(ShaderError, match="no shader 'family/other'"):
        modules.spirv("family/other", ())


@pytest.mark.glsl
def test_an_error_names_file_and_line(checkout: Path) -> None:
    tensor = checkout / "common/tensor.glsl"
    tensor.write_text(tensor.read_text() + "\nfloat broken() { return nonsense; }\n")
    line = len(tensor.read_text().splitlines())
    with pytest.raises(ShaderError, match=f"common/tensor.glsl:{line}: error: 'nonsense'"):
        modules.spirv("family/kernel", VARIANT)
    tensor.write_text((REAL_ROOT / "common/tensor.glsl").read_text())
    with pytest.raises(ShaderError, match="family/kernel.comp:7: error: 'ADDED'"):
        modules.spirv("family/kernel", VARIANT)


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("common/none.glsl", "custom.comp:2: include 'common/none.glsl' is not in"),
        ("../secret.glsl", "custom.comp:2: include '../secret.glsl' lies outside"),
        ("common/circle.glsl", "common/circle.glsl: includes itself"),
    ],
)
def test_a_bad_include_names_its_place(checkout: Path, include: str, message: str) -> None:
    (checkout / "common/circle.glsl").write_text('#include "common/circle.glsl"\n')
    (checkout.parent / "secret.glsl").write_text("")
    with pytest.raises(ShaderError, match=message):
        modules.compile_glsl(f'#version 450\n#include "{include}"\n')


@pytest.mark.glsl
@pytest.mark.parametrize(
    "line",
    [
        '/* */ #include "{}"',
        '/* a\n*/#include "{}"',
        '# /* */ include "{}"',
        '#include /* */ "{}"',
        '#include "{}" // of users',
        '#incl\\\nude "{}"',
        "#include <{}>",
        '#line 7 "//"/* */\n# /* */ include "{}"',
        '#line 7 "/*"\n# /**/ include "{}"\n#line 8 "*/"',
        '#pragma x "/*"\n#include/**/"{}"\n#pragma x "*/"',
        '#define A "\\"\n# /**/ include "{}"\n#define B "/*"',
        '#if 0\n"/*\n#endif\n#/**/include "{}"',
    ],
)
def test_an_include_in_disguise_is_refused(tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret.glsl"
    secret.write_text("int secret;\n")
    refusal = "an include must be a line of its own|no string may have a backslash or a comment's"
    with pytest.raises(ShaderError, match=refusal):
        modules.compile_glsl(f"#version 450\n{line.format(secret)}\nvoid main() {{}}\n")


@pytest.mark.glsl
@pytest.mark.parametrize("line", ["// \udcff", '#include "a\0b"'])
def test_what_is_no_text_is_refused(line: str) -> None:
    with pytest.raises(ShaderError, match=r"custom\.comp"):
        modules.compile_glsl(f"#version 450\n{line}\nvoid main() {{}}\n")


@pytest.mark.glsl
def test_a_commented_include_is_a_comment() -> None:
    text = '#version 450\n// #include "x"\n/*\n // #include "x" */\nvoid main() {}\n'
    assert modules.compile_glsl(text)


@pytest.mark.glsl
def test_users_glsl_may_include_ours() -> None:
    text = KERNEL.replace("ADDED", "GIVEN")
    assert is_spirv(modules.compile_glsl(text, {"GIVEN": 3, "ACCESS": 2}))
    with pytest.raises(ShaderError, match=r"mine\.comp:7: error: 'GIVEN'"):
        modules.compile_glsl(text, name="mine.comp")


def test_glsl_without_a_version_is_an_error() -> None:
    with pytest.raises(ShaderError, match="no #version line"):
        modules.compile_glsl("void main() {}")


@pytest.mark.glsl
def test_an_installed_package_needs_no_compiler(installed: Path) -> None:
    assert is_spirv(modules.spirv("family/kernel", VARIANT))
    with pytest.raises(ShaderError, match="apt install glslc"):
        modules.compile_glsl(KERNEL)


@pytest.mark.glsl
def test_stale_spirv_is_refused(installed: Path) -> None:
    (installed / "sources/common/constants.glsl").write_text("#define ADDED 2\n")
    with pytest.raises(ShaderError, match=r"'family/kernel ACCESS=0 ELEM=1' is stale"):
        modules.spirv("family/kernel", VARIANT)
    reinstall(installed)
    assert is_spirv(modules.spirv("family/kernel", VARIANT))


def change_module(archive: Path, changed: Callable[[bytes], bytes | None]) -> None:
    """Writes an archive anew with another module, or without it."""
    with zipfile.ZipFile(archive) as old:
        contents: dict[str, bytes | None] = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(contents[modules.MANIFEST] or b"")
    file = manifest["modules"]["family/kernel ACCESS=0 ELEM=1"]["file"]
    contents[file] = changed(contents[file] or b"")
    with zipfile.ZipFile(archive, "w") as new:
        for name, data in contents.items():
            if data is not None:
                new.writestr(name, data)


@pytest.mark.glsl
def test_a_damaged_archive_is_refused(installed: Path) -> None:
    change_module(installed / modules.ARCHIVE, lambda module: module[:-4] + b"abcd")
    with pytest.raises(ShaderError, match="is damaged; reinstall vknn"):
        modules.spirv("family/kernel", VARIANT)
    reinstall(installed)
    assert is_spirv(modules.spirv("family/kernel", VARIANT))


@pytest.mark.glsl
def test_a_missing_module_is_refused(installed: Path) -> None:
    change_module(installed / modules.ARCHIVE, lambda module: None)
    with pytest.raises(ShaderError, match="no item named .*; reinstall vknn"):
        modules.spirv("family/kernel", VARIANT)
    reinstall(installed)
    assert is_spirv(modules.spirv("family/kernel", VARIANT))


@pytest.mark.glsl
@pytest.mark.parametrize("content", [None, b"", b"not a zip"])
def test_a_missing_archive_is_refused(installed: Path, content: bytes | None) -> None:
    (installed / modules.ARCHIVE).unlink()
    if content is not None:
        (installed / modules.ARCHIVE).write_bytes(content)
    with pytest.raises(ShaderError, match="missing or damaged .* reinstall vknn"):
        modules.spirv("family/kernel", VARIANT)
    reinstall(installed)
    assert is_spirv(modules.spirv("family/kernel", VARIANT))


@pytest.mark.glsl
def test_builds_reproduce(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, workers in (("a", None), ("b", 1)):  # each compiles
        monkeypatch.setattr(modules, "_loaded", {})
        monkeypatch.setattr(modules, "cache_folder", (tmp_path / f"cache-{name}").absolute)
        assert modules.build(root, tmp_path / name, workers) == 4
    first, second = (tmp_path / name / modules.ARCHIVE for name in "ab")
    assert first.read_bytes() == second.read_bytes()


#: SPIR-V's OpControlBarrier (execution and memory scope first) and OpMemoryBarrier (memory scope).
BARRIERS = {224: 2, 225: 1}
WORKGROUP = 2  # Scope


@pytest.mark.glsl
@pytest.mark.parametrize("kernel", glsl.kernels(REAL_ROOT))
def test_barriers_are_of_the_workgroup(kernel: str) -> None:
    """Device scope would need a feature of its own where the Vulkan memory model is on."""
    variant = glsl.variants(glsl.read_kernel(REAL_ROOT, kernel), kernel)[0]
    words = spv.unpacked(modules.spirv(kernel, variant))
    constants = {of[1]: of[2] for _, of in spv.instructions(words, {spv.CONSTANT})}
    for opcode, operands in spv.instructions(words, BARRIERS):
        assert [constants[scope] for scope in operands[: BARRIERS[opcode]]] == [WORKGROUP] * (
            BARRIERS[opcode]
        )
