"""Texts of remedies that have no case: other tests apply them, or no call can follow them."""

from __future__ import annotations

from tests.remedies.bundle_exports import BUNDLE_EXPORTS
from tests.remedies.bundle_tools import BUNDLE_TOOLS
from tests.remedies.kernel_lab import KERNEL_LAB
from tests.remedies.profiling import PROFILING
from tests.remedies.scale import SCALE
from tests.remedies.verification import VERIFICATION

from vknn.cli.kernel import ACTIONS
from vknn.runtime.vulkan import vk_result

#: Texts whose remedy other tests apply.
ELSEWHERE = {
    **BUNDLE_EXPORTS,
    **BUNDLE_TOOLS,
    **PROFILING,
    **VERIFICATION,
    **SCALE,
    **KERNEL_LAB,
    "makes bits in a shape that the file leaves open; give output 1 a fixed shape": (
        "formats/tflite/test_random_operators.py::test_an_open_shape_of_bits"
    ),
    "node {} has no layer's name and type": (
        "formats/graph_folder/test_graph_folder.py::test_changed_documents_give_errors_or_results"
    ),
    "the {} layer {} is one of somebody's own and is not registered: give the file that registers "
    "it (--layers, vknn.register_layer)": (
        "formats/graph_folder/test_graph_folder.py::test_a_layer_of_ones_own_is_asked_for"
    ),
    "has external data, which a model in memory cannot have: open the model by its path, or save "
    "it as one file": ("formats/onnx/test_reader.py::test_external_data_and_models_in_memory"),
    "the shader of layer {}: {}; or register the layer without a shader": (
        "formats/test_custom.py::test_without_a_compiler"
    ),
    "{} was open when this process was forked, and its driver's threads stayed behind; close it "
    "before, or start processes by spawn": (
        "test_forks.py::test_a_driver_whose_threads_stay_behind"
    ),
    "a session on an open Device cannot be pickled: open it by name": (
        "test_pickled_sessions.py::test_what_is_not_pickled"
    ),
    "the file is open as text; open it in binary, with mode 'rb'": (
        "test_models_in_memory.py::test_files_that_cannot_be_read"
    ),
    "a session of a model in memory cannot be pickled: open it from a file": (
        "test_models_in_memory.py::test_it_is_not_pickled"
    ),
    "a trained session cannot be pickled: save its model, and open that": (
        "test_pickled_sessions.py::test_a_trained_session"
    ),
    "a session cannot be copied: open another, which may share its device": (
        "test_misuse.py::test_a_session_is_not_copied"
    ),
    "the network and its device tensors need {} bytes on the device, more than the limit of {}; "
    "close tensors, or raise memory_limit (VKNN_MEMORY_LIMIT)": (
        "test_device_tensor_lifetimes.py::test_the_memory_limit_counts_them"
    ),
    "its rows are not those of one input: vknn verify --html writes pages of other reports": (
        "reports/test_other_checks.py::test_json_of_many_inputs_is_for_no_profile"
    ),
    "use smaller inputs, or raise memory_limit (VKNN_MEMORY_LIMIT)": (
        "test_memory_budget.py::test_a_session_keeps_to_its_limit"
    ),
    ": give the others with --input NAME=FILE": (
        "cli/test_cli.py::test_files_are_for_the_input_that_is_left"
    ),
    "; where those are of a recipe, give others": (
        "cli/test_inputs.py::test_wrong_numbers_of_numbers"
    ),
    "{} {}: write it as MODULE:FUNCTION or FILE.py:FUNCTION": (
        "cli/test_verify_inputs.py::test_metrics"
    ),
    "--dump writes the arrays of one input, and there are many": (
        "cli/test_verify_inputs.py::test_what_cannot_be_meant"
    ),
    "{} did not finish within {} s on {}; raise VKNN_TIMEOUT (seconds) or use smaller inputs": (
        "runtime/test_executor.py::test_timeout_and_recovery"
    ),
    "`vknn bench --device-limits` writes a new one": (
        "runtime/test_measured_speeds.py::test_damaged_files_are_ignored"
    ),
    "{} {} and is ignored; delete it, or set VKNN_CACHE_DIR": (
        "runtime/test_trusted_file.py::test_a_file_that_everybody_can_write"
    ),
    vk_result.LOST_REMEDY: "runtime/test_device.py::test_lost_device",
    vk_result.MEMORY_REMEDY: "runtime/test_device.py::test_memory_exhausted_while_building",
    "close sessions that are not needed": (
        "runtime/test_device.py::test_memory_exhausted_while_building"
    ),
    "raise VKNN_TIMEOUT (seconds)": "runtime/test_executor.py::test_timeout_and_recovery",
    "it is a null device, which computes nothing (VKNN_NULL_DEVICE=1 or --null-device allows it)": (
        "runtime/test_device_selection.py::test_null_devices_are_never_taken_for_real_ones"
    ),
    "it is a null device, which computes nothing: give its name or index to use it": (
        "runtime/test_device_selection.py::test_null_devices_are_never_taken_for_real_ones"
    ),
    "it is a null device, which computes nothing (its name or index, and VKNN_NULL_DEVICE=1 or "
    "--null-device, allow it)": (
        "runtime/test_device_selection.py::test_null_devices_are_never_taken_for_real_ones"
    ),
    "{} is a null device: nothing is computed on it, so no result is right or wrong; choose "
    "another device, or judge with --check": (
        "null_devices/test_command_line.py::test_nothing_is_judged_by_what_it_computes"
    ),
    "--fail-over: a dispatch has no modelled time, so there is no sum of them": (
        "profiling/test_static_files.py::test_what_does_not_go_together"
    ),
    "{} is a static profile and {} is none: give two files that vknn profile --static --json "
    "wrote": ("profiling/test_static_files.py::test_what_does_not_go_together"),
    "{}: shader {} is {}; reinstall vknn": "runtime/test_shaders.py::test_stale_spirv_is_refused",
    "{}: {} is damaged; reinstall vknn": (
        "runtime/test_shaders.py::test_a_damaged_archive_is_refused"
    ),
    "{}: the compiled shaders are missing or damaged ({}); reinstall vknn": (
        "runtime/test_shaders.py::test_a_missing_archive_is_refused"
    ),
    "{}: {}; reinstall vknn": "runtime/test_shaders.py::test_a_missing_module_is_refused",
    "{} was not done within {} s; give it a longer timeout, or raise VKNN_TIMEOUT (seconds)": (
        "run_limits/test_runs.py::test_the_switch_holds_for_whole_runs"
    ),
    "runs={}, timeout={}: both must be above 0": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
    "NumPy has no kernels to choose from: tuning needs a Vulkan device": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
}

#: Texts that no call can follow, or that give no advice, and why.
EXEMPT = {
    "unrecognized arguments: --save": "what an older vknn answers",
    "{}: written by a newer vknn: version {} of the format, this vknn reads up to {}: upgrade it "
    "(pip install -U vknn)": "there is no newer vknn",
    "report this as a bug of vknn": "nothing to run",
    "check the driver with `vulkaninfo`": "a program of the Vulkan tools, which vknn lacks",
    "update the Vulkan driver": "another driver",
    "{} is not listed any more; open it again": "a device that comes back",
    "install the validation layer (Debian: vulkan-validationlayers) or unset VKNN_VALIDATE": (
        "as VKNN_VALIDATE is set but there is no validation layer"
    ),
    "--layers: there is no file {}": "tells which option is wrong",
    "--layers {}: {}: {}": "tells which option is wrong",
    "sizes must be above 0": "tells what is wrong with a file",
    "--target-env=vulkan1.1 -O0": "options of glslc",
    "set layout": "the name of a Vulkan object",
    "choices that `vknn tune` measured (kernels are chosen by estimate)": "documentation",
    "`VKNN_DISABLE` takes these names:": "documentation",
    "this is pnnx's own network (.pnnx.param), not ncnn's: open the .ncnn.param that pnnx writes "
    "beside it": "another program writes that file",
    "--output takes the results of one run: give its input with --input": (
        "tells which option is wrong"
    ),
    'pip install "vknn[ray]"': ("another installation; scale/test_command.py shows the line"),
    "without an id column nothing says which records are suspect: --restart": (
        "begins the job anew, as others do"
    ),
    "{}: a kernel lab of version {}, and this vknn knows {}: update vknn": "a later version",
    "- compiled by hand: `glslc -fshader-stage=compute --target-env=vulkan1.1 -O0 -Iglsl {} "
    "glsl/{}.comp`": "options of glslc",
    "    vknn kernel run . --watch    # the same each time that a file below glsl/ is saved": (
        "documentation"
    ),
    ACTIONS: "documentation",
}
