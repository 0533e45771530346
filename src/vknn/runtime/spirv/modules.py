"""SPIR-V modules by kernel and variant.

In a checkout a module is compiled when it is first needed and kept on disk under the hash of its
source, includes, defines and compiler. In an installed package it comes out of the archive made
when the package was built, and only if the sources beside it still have the hash it was made from.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vknn import environment
from vknn.errors import ShaderError
from vknn.runtime import cachefile, trusted_file
from vknn.runtime.spirv import cooperative, glsl, shaderc
from vknn.runtime.spirv.expanded import expanded_kernel
from vknn.runtime.spirv.glsl import Variant
from vknn.runtime.spirv.shaderc import ShaderJob

ARCHIVE = "modules.zip"
MANIFEST = "manifest.json"
#: Modules that one start of the compiler is given in a build.
BATCH = 24

_loaded: dict[str, bytes] = {}


def spirv(kernel: str, variant: Variant = ()) -> bytes:
    """The module of a kernel ("<family>/<name>") for a variant that its pragma lists.

    Raises :class:`ShaderError` for an unknown kernel or variant, for GLSL that does not compile and
    for a packaged module that is stale or damaged.
    """
    root = glsl.source_root()
    source = expanded_kernel(root, kernel)
    expanded, variant = source.text, tuple(sorted(variant))
    glsl.check_variant(source.variants, kernel, variant)
    if glsl.checkout_root() is None:
        return _packaged(kernel, variant, glsl.content_hash(expanded, dict(variant)))
    wanted = ShaderJob(expanded, f"{kernel}.comp", dict(variant))
    held = _held(_key(wanted, shaderc.compiler()))
    if held is not None:
        return held
    # What a session is likely to ask for next; it has one precision.
    near = [v for v in source.variants if _arithmetic(v) == _arithmetic(variant)]
    listed = [variant, *(v for v in near if v != variant)]
    return _compiled([ShaderJob(expanded, f"{kernel}.comp", dict(v)) for v in listed])[0]


def _arithmetic(variant: Variant) -> tuple[bool, ...]:
    """The choices of a variant that are the same for all kernels of a session."""
    return tuple(name in dict(variant) for name in ("HALF", "BF16", "HALF_SUMS", "COOPERATIVE"))


def compile_glsl(
    text: str, defines: Mapping[str, str | int] | None = None, name: str = "custom.comp"
) -> bytes:
    """SPIR-V of a user's own compute shader; it may include vknn's "common/tensor.glsl".

    Needs libshaderc or glslc. Raises :class:`ShaderError` with the compiler's message.
    """
    expanded = glsl.expand(text, name, glsl.source_root())
    return _compiled([ShaderJob(expanded, name, {k: str(v) for k, v in (defines or {}).items()})])[
        0
    ]


def _compiled(jobs: Sequence[ShaderJob]) -> list[bytes]:
    """The modules of ``jobs``: from memory, from disk, or compiled, all missing ones in one go."""
    compiler = shaderc.compiler()
    keys = [_key(job, compiler) for job in jobs]
    missing = {k: j for k, j in zip(keys, jobs, strict=True) if _held(k) is None}
    if missing:
        modules = _compile(list(missing.values()))
        for key, module in zip(missing, modules, strict=True):
            write_cached(cache_folder() / f"{key}.spv", module)
            _loaded[key] = module
    return [_loaded[key] for key in keys]


def _key(job: ShaderJob, compiler: shaderc.Compiler) -> str:
    return glsl.content_hash(job.text, job.defines, _maker(job, compiler))


def _held(key: str) -> bytes | None:
    """The module in memory, or on disk and from then on in memory."""
    if key not in _loaded:
        cached = read_cached(cache_folder() / f"{key}.spv")
        if cached is None:
            return None
        _loaded[key] = cached
    return _loaded[key]


def _compile(jobs: Sequence[ShaderJob]) -> list[bytes]:
    """SPIR-V of each job, with what is beyond the compiler written out."""
    return [cooperative.completed(module) for module in shaderc.compiler().compile(jobs)]


def _maker(job: ShaderJob, compiler: shaderc.Compiler) -> str:
    """Name and compiler of a module: what its hash covers besides text and defines."""
    own = f" {cooperative.VERSION}" if cooperative.DEFINE in job.defines else ""
    return f"{job.name} {compiler.identity}{own}"


def cache_folder() -> Path:
    """The checkout's own folder: names are content hashes, so all that run from it may share it."""
    checkout = glsl.checkout_root()
    folder = checkout.parent / ".cache" if checkout else environment.read().cache_path()
    return folder / "spirv"


def read_cached(path: Path) -> bytes | None:
    """A cached module; its last 32 bytes are the hash of the others, against damage."""
    try:
        data = trusted_file.read(path, cachefile.MAX_BYTES)
    except (OSError, ValueError):
        return None
    module, digest = data[:-32], data[-32:]
    return module if module and hashlib.sha256(module).digest() == digest else None


def write_cached(path: Path, module: bytes) -> None:
    """Replacement in one step; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        cachefile.replace(path, with_sum(module))


def with_sum(module: bytes) -> bytes:
    """Contents of a cached module's file: the module and its SHA-256."""
    return module + hashlib.sha256(module).digest()


def entry_name(kernel: str, variant: Variant) -> str:
    """Name of a module in manifest and archive."""
    return " ".join([kernel, *(f"{k}={v}" for k, v in variant)])


@functools.lru_cache(maxsize=1)
def _archive() -> tuple[zipfile.ZipFile, dict[str, dict[str, str]]]:
    path = glsl.INSTALLED / ARCHIVE
    try:
        archive = zipfile.ZipFile(path)
        manifest = json.loads(archive.read(MANIFEST))
        return archive, manifest["modules"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ShaderError(
            f"{path}: the compiled shaders are missing or damaged ({error}); reinstall vknn"
        ) from error


@functools.cache
def _packaged(kernel: str, variant: Variant, source_hash: str) -> bytes:
    archive, modules = _archive()
    entry = modules.get(entry_name(kernel, variant))
    if entry is None or entry["source"] != source_hash:
        raise ShaderError(
            f"{glsl.INSTALLED / ARCHIVE}: shader {entry_name(kernel, variant)!r} is "
            f"{'missing' if entry is None else 'stale (its source has changed)'}; reinstall vknn"
        )
    try:
        module = archive.read(entry["file"])
    except (KeyError, OSError, zipfile.BadZipFile) as error:
        raise ShaderError(f"{glsl.INSTALLED / ARCHIVE}: {error}; reinstall vknn") from error
    if hashlib.sha256(module).hexdigest() != entry["module"]:
        raise ShaderError(f"{glsl.INSTALLED / ARCHIVE}: {entry['file']} is damaged; reinstall vknn")
    return module


def build(root: Path, target: Path, workers: int | None = None) -> int:
    """Compilation of every variant of every kernel under ``root`` into an archive in ``target``.

    What a checkout has compiled already is taken from there.
    Copies the sources beside it, for the check against staleness and for users' includes. Returns
    the number of modules. Raises :class:`ShaderError` for the first one that does not compile.
    """
    names: list[tuple[str, Variant]] = []
    jobs: list[ShaderJob] = []
    for kernel in glsl.kernels(root):
        source = expanded_kernel(root, kernel)
        for variant in source.variants:
            names.append((kernel, variant))
            jobs.append(ShaderJob(source.text, f"{kernel}.comp", dict(variant)))
    batches = [jobs[i : i + BATCH] for i in range(0, len(jobs), BATCH)]
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        compiled = pool.map(_compiled, batches)
        modules = [module for batch in compiled for module in batch]
    shutil.rmtree(target, ignore_errors=True)
    _copy_sources(root, target / "sources")
    _write_archive(target / ARCHIVE, names, jobs, modules)
    return len(modules)


def _copy_sources(root: Path, target: Path) -> None:
    for path in sorted([*root.rglob("*.comp"), *root.rglob("*.glsl")]):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def _write_archive(
    path: Path, names: list[tuple[str, Variant]], jobs: list[ShaderJob], modules: list[bytes]
) -> None:
    """The archive's bytes depend on its content only (no times), so that builds reproduce."""
    entries: dict[str, dict[str, str]] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        written: set[str] = set()
        for (kernel, variant), job, module in zip(names, jobs, modules, strict=True):
            digest = hashlib.sha256(module).hexdigest()
            file = f"{digest[:24]}.spv"
            if file not in written:
                archive.writestr(_zip_entry(file), module)
                written.add(file)
            source = glsl.content_hash(job.text, job.defines)
            entries[entry_name(kernel, variant)] = {
                "file": file,
                "source": source,
                "module": digest,
            }
        manifest = {"modules": entries}
        archive.writestr(_zip_entry(MANIFEST), json.dumps(manifest, indent=1))


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
