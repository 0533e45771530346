"""Runtime: plans run on Vulkan devices, ``Plan`` + arrays -> arrays, timestamps.

with open_device("auto") as device, Executable(device, plan) as executable:
    outputs = executable.run({"data": array})
"""

from vknn import environment
from vknn.environment import Environment
from vknn.runtime.device import Device, devices, list_devices, open_device
from vknn.runtime.device_array import DeviceArray, on_host
from vknn.runtime.device_tensor import DeviceTensor, as_tensors
from vknn.runtime.executor import Executable
from vknn.runtime.plan_stream import PlanStream
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.tensor_pool import TensorAccount
from vknn.runtime.timing import PlanProfile
from vknn.runtime.vulkan.lifetime import close_all
from vknn.runtime.vulkan.live_objects import live_objects
from vknn.runtime.vulkan.messages import raise_pending as check_validation
from vknn.runtime.weights import WeightPool

__all__ = [
    "Device",
    "DeviceArray",
    "DeviceTensor",
    "Environment",
    "Executable",
    "PlanProfile",
    "PlanStream",
    "Snapshot",
    "TensorAccount",
    "WeightPool",
    "as_tensors",
    "check_validation",
    "close_all",
    "devices",
    "environment",
    "list_devices",
    "live_objects",
    "on_host",
    "open_device",
]
