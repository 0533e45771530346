"""A layer with a fault: y = max(x, 0) but for what its mode says. Run by ``--layers``.

Modes: 0 none, 1 channel 5, 2 the seam between columns 7 and 8, 3 values above 2.5, 4 NaN for values
above 2.5, 5 the process crashes, 6 it never ends, 7 the device is lost, 8 all by a hundredth, 9 the
driver says that the device is lost. Where FAULT_LAYER, the library of tests/runtime/fault_layer, is
in the environment, the driver says so once in any mode when there is a file LOSE_DEVICE.
"""

import ctypes
import os
import signal
import time

import numpy as np

import vknn
from vknn.errors import DeviceLostError

SHADER = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"

INPUT1F(0, x);
OUTPUT1F(1, y);

layout(push_constant) uniform P {
    int count;
    int plane;
    int width;
    int mode;
} p;

void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    float v = max(LOAD1(x, i), 0.0);
    if (p.mode == 1 && i / p.plane == 5) v = v * 1.01 + 0.01;
    if (p.mode == 2 && i % p.width == 8) v = v + 0.25;
    if (p.mode == 3 && v > 2.5) v = v * 0.5;
    if (p.mode == 4 && v > 2.5) v = uintBitsToFloat(0x7fc00000u);
    if (p.mode == 8) v *= 1.01;
    STORE1(y, i, v);
}
"""


def lose_device():
    """From the next submit on the driver says that the device is lost."""
    arm = ctypes.CDLL(os.environ["FAULT_LAYER"]).vknn_faults_arm
    arm(ctypes.c_long(1), ctypes.c_int(-4), ctypes.c_int(1), b"vkQueueSubmit")


def once():
    """Whether there is a file LOSE_DEVICE, which is taken away."""
    try:
        os.unlink(os.environ.get("LOSE_DEVICE", ""))
    except FileNotFoundError:
        return False
    return True


def push(inputs, outputs, options):
    mode = options["mode"]
    if mode == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == 6:
        time.sleep(600)
    if mode == 7:
        raise DeviceLostError("the device was lost")
    if mode == 9 or once():
        lose_device()
    *_, height, width = outputs[0]
    return [int(np.prod(outputs[0])), height * width, width, mode]


vknn.register_layer(
    "ncnn",
    "Faulty",
    shape=lambda shapes, options: shapes[0],
    compute=lambda arrays, weights, options: np.maximum(arrays[0], 0),
    parameters={"mode": (0, 0)},
    shader=vknn.Shader(SHADER, push=push),
    replace=True,
)
