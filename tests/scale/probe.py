"""A layer for ncnn that ends its process, fails or waits where tests ask for it; for --layers.

VKNN_TEST_PROBE is "value:what" with commas between; value is the first number of a record, and what
is kill, kill-once=FILE, fail, or sleep=SECONDS. "*" is any value.
"""

import os
import pathlib
import signal
import time

import numpy as np

import vknn


def _probe(arrays, weights, options):
    first = float(np.ravel(arrays[0])[0])
    for entry in filter(None, os.environ.get("VKNN_TEST_PROBE", "").split(",")):
        value, what = entry.split(":", 1)
        if value != "*" and float(value) != first:
            continue
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what.startswith("kill-once="):
            file = pathlib.Path(what.partition("=")[2])
            if not file.exists():
                file.write_text("", encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)
        elif what == "fail":
            raise ValueError("the probe fails")
        else:
            time.sleep(float(what.partition("=")[2]))
    return arrays[0] * np.float32(2)


vknn.register_layer("ncnn", "Probe", shape=lambda shapes, options: shapes[0], compute=_probe)
