"""Texts of remedies of profiles, comparisons and measurements, which their own tests apply."""

from __future__ import annotations

PROFILING = {
    "the vknn in {} is older than turns of runs: compare with --one-by-one": (
        "profiling/test_compare.py::test_a_checkout_that_is_too_old_is_named"
    ),
    "--compiled is for what is measured: leave out --static": (
        "profiling/test_static_columns.py::test_options_that_do_not_go_together"
    ),
    "no counters are named: --counters list shows what there is": (
        "profiling/test_counters.py::test_unknown_counters"
    ),
    "the device has no counter {}{}: --counters list shows what there is": (
        "profiling/test_counters.py::test_unknown_counters"
    ),
    "on Linux, set dev.i915.perf_stream_paranoid=0 (sysctl; dev.xe.observation_paranoid=0 with the "
    "xe kernel driver), and try INTEL_DEBUG=no-oaconfig": (
        "profiling/test_counters.py::test_the_switch_that_a_driver_needs"
    ),
    "update it, or choose another device": (
        "cli/test_bad_drivers.py::test_a_compiler_that_does_not_return"
    ),
    "repair or remove it, or install another (Debian: apt install mesa-vulkan-drivers)": (
        "cli/test_bad_drivers.py::test_nothing_but_a_bad_driver"
    ),
    "`vknn devices` tries each apart": (
        "cli/test_bad_drivers.py::test_a_driver_that_the_profile_does_not_reach"
    ),
    "--time-limit takes a number of seconds above 0": "cli/test_bad_drivers.py::test_time_limits",
    "--capture-file needs --capture": "profiling/test_renderdoc.py::test_capture_file_alone",
    "a device is open, and RenderDoc sees only those that are opened after it: close all sessions "
    "first": "profiling/test_renderdoc.py::test_a_session_that_is_open",
    "install RenderDoc 1.2 or newer, with its library": (
        "profiling/test_renderdoc.py::test_no_renderdoc"
    ),
    "--device-limits measures the device: it takes no model": (
        "profiling/test_limits.py::test_command_line"
    ),
    "--device-limits measures the device: leave out --{}": (
        "profiling/test_limits.py::test_options_of_models_are_refused"
    ),
    "--keep FOLDER keeps the profiles of both sides": (
        "profiling/test_profile_modes.py::test_what_a_mode_has_no_use_for"
    ),
    "add --save FILE or --html FILE, with which times are measured, too": (
        "profiling/test_counters.py::test_beside_the_times"
    ),
    "`vknn bench --device-limits{}` measures them, once for a device and driver": (
        "profiling/test_remembered_limits.py::test_a_profile_has_what_is_remembered"
    ),
    " --device {}": (
        "profiling/test_remembered_limits.py::test_a_device_that_is_named_is_so_in_the_remedy"
    ),
    "--device-limits FILE.json gives them": (
        "profiling/test_remembered_limits.py::test_report_takes_them_from_a_file"
    ),
    "--device-limits needs --html for a profile of vknn-run": (
        "profiling/test_remembered_limits.py::test_a_profile_of_vknn_run_gets_them_on_its_page"
    ),
    "--versus needs options or a checkout's folder": (
        "profiling/test_compare.py::test_versus_from_the_command_line"
    ),
    "--versus {}: this is neither an option nor a checkout of vknn": (
        "profiling/test_compare.py::test_versus_from_the_command_line"
    ),
    "--versus {}: {}": "profiling/test_compare.py::test_versus_from_the_command_line",
    "--{} needs --versus": "profiling/test_compare.py::test_versus_from_the_command_line",
    "the vknn in {} is older than --save and cannot be compared": (
        "profiling/test_compare.py::test_a_checkout_that_is_too_old_is_named"
    ),
    "pairs={}: at least one is needed": (
        "profiling/test_compare.py::test_versus_from_the_command_line"
    ),
    "one run a side tells nothing: take more with --runs": (
        "profiling/test_compare.py::test_one_run_tells_nothing"
    ),
    "runs of one process are alike, so intervals are wider by {}: take {} processes a side or more "
    "(`vknn profile --versus` runs them in turn)": (
        "profiling/test_compare.py::test_one_process_a_side_says_only_what_is_plain"
    ),
    "to_arrow needs pyarrow, which is missing: pip install pyarrow": (
        "profiling/test_frames.py::test_without_the_package_the_remedy_is_named"
    ),
    "to_dataframe needs pandas, which is missing: pip install pandas": (
        "profiling/test_frames.py::test_without_the_package_the_remedy_is_named"
    ),
    "{} and {}: layers have the same names, but none has the same shape on both sides: give both "
    "inputs of the same shapes": (
        "profiling/test_compare.py::test_other_models_and_shapes_are_refused"
    ),
    "{} has profiles already: name an empty folder": (
        "profiling/test_compare.py::test_versus_takes_turns_and_keeps_the_profiles"
    ),
    "{} is no share: write it as 5%": "profiling/test_compare.py::test_command_line",
    "--device-limits needs a Vulkan device": "profiling/test_limits.py::test_command_line",
    "no peer is called {}; known: {}": (
        "profiling/test_bench.py::test_a_peer_runs_in_turn_and_agrees"
    ),
    "--latencies takes a number above 0, and at most {}": (
        "profiling/test_static.py::test_options_of_static_alone"
    ),
    "--{} needs --static": "profiling/test_static.py::test_options_of_static_alone",
    "a static profile needs a Vulkan device: NumPy compiles nothing": (
        "profiling/test_static.py::test_numpy_compiles_nothing"
    ),
    "times of its layers: vknn-run net.vkb --profile run.json, then vknn report run.json\n": (
        "bundle/test_runner_profile.py::test_an_answer_of_a_test_is_shown"
    ),
    "{}: no answer of vknn-run --test: {}": (
        "bundle/test_runner_profile.py::test_damaged_answers_are_refused"
    ),
    "{}: this is the answer of vknn-run --test, in which are no times for {}: take one of "
    "vknn-run --profile": ("bundle/test_runner_profile.py::test_an_answer_of_a_test_is_shown"),
}
