"""Packages of a suite of Debian, in a folder: apt with a configuration of its own.

Nothing of the system is touched and no root is needed. Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import prepare


class Unavailable(Exception):
    """The reason why something cannot be had on this machine."""


class Archive:
    """A suite as apt's only source, apt's state in ``folder``; ``sources``: source packages too.

    ``architecture``: Debian's name of the packages' processor. Raises Unavailable where there is no
    apt, no keyring, no mirror, or this machine is no x86-64.
    """

    def __init__(
        self, folder: Path, suite: str, *, sources: bool = False, architecture: str = "amd64"
    ) -> None:
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise Unavailable(f"it comes from Debian's packages; there is no {tool}")
        if os.uname().machine != "x86_64":
            raise Unavailable(f"it is made for x86_64, not for {os.uname().machine}")
        self.folder, self.suite = folder, suite
        kinds = ("deb", "deb-src") if sources else ("deb",)
        configuration = _configuration(folder, suite, kinds, architecture)
        self._environment = {**os.environ, "APT_CONFIG": str(configuration)}
        self._run(["-qq", "update"], folder)

    def with_dependencies(self, packages: Sequence[str]) -> list[str]:
        """Names of packages and of all that they depend on."""
        options = ["install", "-s", "-y", "--no-install-recommends"]
        plan = self._run([*options, *packages], self.folder)
        return re.findall(r"^Inst (\S+)", plan, re.MULTILINE)

    def unpack(self, packages: Sequence[str], target: Path) -> None:
        """Packages downloaded and unpacked under ``target``."""
        downloads = self.folder / "deb"
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        target.mkdir(parents=True, exist_ok=True)
        self._run(["-qq", "download", *packages], downloads)
        for package in sorted(downloads.glob("*.deb")):
            prepare.run(["dpkg-deb", "-x", package, target])
        shutil.rmtree(downloads)

    def source(self, package: str, target: Path) -> Path:
        """A source package's original archive, downloaded into ``target``."""
        target.mkdir(parents=True, exist_ok=True)
        self._run(["-qq", "source", "--download-only", package], target)
        archives = sorted(target.glob("*.orig.tar.*"))
        archives = [path for path in archives if path.suffix != ".asc"]
        if not archives:
            raise Unavailable(f"the source package {package} has no original archive")
        return archives[0]

    def _run(self, arguments: list[str], folder: Path) -> str:
        done = subprocess.run(
            ["apt-get", *arguments],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = done.stdout.strip().splitlines()[-1:] or ["no message"]
            raise Unavailable(f"packages of Debian {self.suite} cannot be had: {last[0]}")
        return done.stdout


def _configuration(folder: Path, suite: str, kinds: Sequence[str], architecture: str) -> Path:
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    keys = sorted(Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
    if not keys:
        raise Unavailable("it comes from Debian's packages; there is no Debian keyring")
    source = f"[signed-by={keys[0]}] {_mirror()} {suite} main\n"
    (folder / "sources.list").write_text("".join(f"{kind} {source}" for kind in kinds))
    (folder / "status").touch()
    configuration = folder / "conf"
    configuration.write_text(
        f'Dir::Etc::sourcelist "{folder}/sources.list";\n'
        'Dir::Etc::sourceparts "-";\n'
        f'Dir::State "{folder}/state";\n'
        f'Dir::State::status "{folder}/status";\n'
        f'Dir::Cache "{folder}/cache";\n'
        'APT::Sandbox::User "";\n'
        f'APT::Architecture "{architecture}";\n'
        f'APT::Architectures {{ "{architecture}"; }};\n'
    )
    return configuration


def _mirror() -> str:
    """The mirror that this machine's own packages come from."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(listing, capture_output=True, text=True, check=False)
    mirrors = [line for line in done.stdout.splitlines() if "security" not in line]
    if not mirrors:
        raise Unavailable("apt-get knows no Debian mirror")
    return mirrors[0]
