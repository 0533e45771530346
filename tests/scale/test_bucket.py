"""Jobs from and to a bucket of cloud storage, which a server on this machine plays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from tests.scale.jobs import HOST, write_net

from vknn import scale
from vknn.errors import VknnError

pytest.importorskip("moto.server", reason="moto is not installed")
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Options of addresses in a bucket, behind "s3://BUCKET/PATH"."""
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", "0"],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    patch = pytest.MonkeyPatch()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "one"), ("AWS_SECRET_ACCESS_KEY", "two"),
        ("AWS_EC2_METADATA_DISABLED", "true"), ("no_proxy", "127.0.0.1"), ("NO_PROXY", "127.0.0.1"),
    ):  # fmt: skip
        patch.setenv(name, value)
    try:
        yield f"?endpoint_override=127.0.0.1:{_port(server)}&scheme=http&region=us-east-1"
    finally:
        patch.undo()
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _port(server: Any) -> int:
    """The port that the server says it listens at."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        line = server.stderr.readline()
        if "Running on http://127.0.0.1:" in line:
            return int(line.split("Running on http://127.0.0.1:")[1].split()[0].rstrip("/"))
    raise AssertionError("the server does not begin")


def test_a_job_reads_and_writes_a_bucket(bucket: str, tmp_path: Path) -> None:
    place, _ = fs.FileSystem.from_uri(f"s3://vknn/{bucket}&allow_bucket_creation=true")
    place.create_dir("vknn")
    rows = np.random.default_rng(0).standard_normal((7, 4), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    fs.copy_files(str(tmp_path / "rows.npy"), "vknn/in/rows.npy", destination_filesystem=place)
    net, source, target = write_net(tmp_path), f"s3://vknn/in{bucket}", f"s3://vknn/out{bucket}"
    report = scale.run(source, net, target, **HOST)
    assert (report.state, report.rows) == ("done", 7)
    table = pq.read_table("vknn/out", filesystem=place)
    found = dict(zip(table["row"].to_pylist(), table["out"].to_pylist(), strict=True))
    assert found == {f"vknn/in/rows.npy#{i}": list(rows[i] * rows[i]) for i in range(7)}
    assert scale.run(source, net, target, **HOST).new_rows == 0
    with pytest.raises(VknnError, match="another job"):
        scale.run(source, net, target, precision="fp16", **HOST)
    again = scale.run(source, net, target, precision="fp16", restart=True, **HOST)
    assert again.new_rows == 7
    assert pq.read_table("vknn/out", filesystem=place).num_rows == 7


def test_a_bucket_that_is_not_there(bucket: str, tmp_path: Path) -> None:
    source = f"s3://nowhere/in{bucket}"
    with pytest.raises(ValueError, match=r"s3://nowhere/in.*(cannot be listed|there are no)"):
        scale.run(source, write_net(tmp_path), tmp_path / "out", **HOST)
