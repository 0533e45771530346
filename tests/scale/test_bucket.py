"""Jobs from and to a bucket of cloud storage, which a server on this machine plays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from tests.scale.jobs import HOST, write_net

from vknn import scale
from vknn.errors import VknnError
from vknn.scale import claim
from vknn.scale.folder import Folder

pytest.importorskip("moto.server", reason="moto is not installed")
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Options of addresses in a bucket, behind "s3://BUCKET/PATH"."""
    said = tmp_path_factory.mktemp("server") / "log"
    with said.open("w") as log:
        command = [sys.executable, "-m", "moto.server", "-p", "0"]
        server = subprocess.Popen(command, stderr=log, start_new_session=True)
    patch = pytest.MonkeyPatch()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "one"), ("AWS_SECRET_ACCESS_KEY", "two"),
        ("AWS_EC2_METADATA_DISABLED", "true"), ("no_proxy", "127.0.0.1"), ("NO_PROXY", "127.0.0.1"),
    ):  # fmt: skip
        patch.setenv(name, value)
    try:
        yield f"?endpoint_override=127.0.0.1:{_port(said)}&scheme=http&region=us-east-1"
    finally:
        patch.undo()
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _port(said: Path) -> int:
    """The port that the server says it listens at."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := re.search(
            r"Running on http://127.0.0.1:(\d+)", said.read_text(encoding="utf-8")
        ):
            return int(found[1])
        time.sleep(0.1)
    raise AssertionError("the server does not begin")


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_job_reads_and_writes_a_bucket(
    bucket: str, tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "ray":  # its processes have the environment of the bucket
        request.getfixturevalue("ray")
    options = HOST | {"engine": engine}
    place, _ = fs.FileSystem.from_uri(f"s3://vknn/{bucket}&allow_bucket_creation=true")
    place.create_dir("vknn")
    rows = np.random.default_rng(0).standard_normal((7, 4), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    fs.copy_files(str(tmp_path / "rows.npy"), "vknn/in/rows.npy", destination_filesystem=place)
    net, source, target = (
        write_net(tmp_path),
        f"s3://vknn/in{bucket}",
        f"s3://vknn/{engine}{bucket}",
    )
    report = scale.run(source, net, target, **options)
    assert (report.state, report.rows) == ("done", 7)
    table = pq.read_table(f"vknn/{engine}", filesystem=place)
    found = dict(zip(table["row"].to_pylist(), table["out"].to_pylist(), strict=True))
    assert found == {f"vknn/in/rows.npy#{i}": list(rows[i] * rows[i]) for i in range(7)}
    assert scale.run(source, net, target, **options).new_rows == 0
    same = f"s3://vknn/in/{bucket}"  # the same folder
    assert scale.run(same, net, f"s3://vknn/{engine}/{bucket}", **options).new_rows == 0
    with pytest.raises(VknnError, match="another job"):
        scale.run(source, net, target, precision="fp16", **options)
    with pytest.raises(VknnError, match="lies in the source"):
        scale.run(source, net, f"s3://vknn/in/below{bucket}", **options)
    again = scale.run(source, net, target, precision="fp16", restart=True, **options)
    assert again.new_rows == 7
    assert pq.read_table(f"vknn/{engine}", filesystem=place).num_rows == 7


def test_a_bucket_that_is_not_there(bucket: str, tmp_path: Path) -> None:
    source = f"s3://nowhere/in{bucket}"
    with pytest.raises(ValueError, match=r"s3://nowhere/in.*(cannot be listed|there are no)"):
        scale.run(source, write_net(tmp_path), tmp_path / "out", **HOST)


def test_two_jobs_in_one_bucket(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused while the first lives, and its claim goes with it."""
    place, _ = fs.FileSystem.from_uri(f"s3://vknn/{bucket}&allow_bucket_creation=true")
    place.create_dir("vknn")
    first, second = (Folder(f"s3://vknn/two{bucket}") for _ in range(2))
    first.create()
    with first.held():
        with pytest.raises(VknnError, match=f"folder now: process {os.getpid()} on "):
            second.held().__enter__()
        assert not first.lost
    with second.held():
        pass
    with place.open_output_stream("vknn/two/_vknn/claim-00.json") as file:
        file.write(b'{"host": "other", "machine": "m", "pid": 7, "start": "1"}')
    monkeypatch.setattr(claim, "STALE_SECONDS", 4.0)
    with (
        pytest.warns(RuntimeWarning, match="process 7 on other worked in this folder"),
        second.held(),
    ):
        pass
    left = place.get_file_info(fs.FileSelector("vknn/two/_vknn"))
    assert not [info.path for info in left if "claim" in info.path]
