"""Texts of remedies that have no case: other tests apply them, or no call can follow them."""

from __future__ import annotations

from tests.remedies.bundle_tools import BUNDLE_TOOLS

from vknn.cli.kernel import ACTIONS
from vknn.runtime.vulkan import vk_result

#: Texts whose remedy other tests apply.
ELSEWHERE = {
    "--example {}: an example is a .npy or a .npz file": (
        "bundle/test_export.py::test_examples_are_arrays"
    ),
    "a tensor of {} bytes is longer than the {} that target {} allows; give smaller shapes "
    "with --shape, or another --target": (
        "bundle/test_export_reasons.py::test_a_tensor_longer_than_the_target_allows"
    ),
    "cut the network in front of it with --outputs": (
        "bundle/test_export_reasons.py::test_a_kernel_that_is_switched_off"
    ),
    "input {}: its data decide shapes; fix them with --fixed {}=...": (
        "bundle/test_export_reasons.py::test_inputs_whose_data_decide_shapes"
    ),
    "one of its tensors has no elements; give other shapes with --shape": (
        "bundle/test_export_reasons.py::test_tensors_without_elements"
    ),
    "target {} has no 16-bit arithmetic (shaderFloat16), which --arithmetic fp16 needs; leave"
    " it out (--precision fp16 may stay)": ("bundle/test_export.py::test_bad_input"),
    "target {} has no 16-bit storage (storageBuffer16BitAccess), which --precision {} needs; "
    "export it with --precision fp32, or for another --target": (
        "bundle/test_export.py::test_bad_input"
    ),
    "the model leaves the shape of input {} open: give it, as in --shape {}={} (in Python "
    "shapes={{}: ({})})": ("bundle/test_export_reasons.py::test_shapes_that_are_missing"),
    "the shape of input {} has no axes (rank 0); give its sizes, as in --shape {}=3,224,224": (
        "bundle/test_export.py::test_bad_input"
    ),
    "there is no feature {}; known: {}": ("bundle/test_targets.py::test_impossible_numbers"),
    "there is no limit {}; there are {}": ("bundle/test_targets.py::test_impossible_numbers"),
    "there is no set of shapes: leave shapes out, or give one": (
        "bundle/test_export.py::test_bad_input"
    ),
    "there is no target {}; there are {}, and .json files of limits, such as `vknn devices "
    "--json` writes{}": ("bundle/test_export.py::test_bad_input"),
    "{} missing: a target needs all of them (`vknn devices --json` on the device writes them)": (
        "bundle/test_targets.py::test_missing_numbers"
    ),
    "{} {} has elements of type {}, which no device holds; cut the network with --outputs, or"
    " convert it beforehand": ("bundle/test_export_reasons.py::test_strings"),
    "{} {} has no elements; give another shape with --shape": (
        "bundle/test_export_reasons.py::test_tensors_without_elements"
    ),
    "{}: its shapes hang on data that are computed at run time; {}, or fix with --fixed the "
    "input that decides": ("bundle/test_export_reasons.py::test_every_layer_is_named"),
    "{}: loops, branches or computed shapes, of which data decide how they go on; {}, or fix "
    "with --fixed the inputs that decide": ("bundle/test_export_reasons.py::test_a_branch_on_data"),
    **BUNDLE_TOOLS,
    "the vknn in {} is older than turns of runs: compare with --one-by-one": (
        "profiling/test_compare.py::test_a_checkout_that_is_too_old_is_named"
    ),
    "--advise makes a report of its own, without {}": (
        "crosscheck/test_advice.py::test_the_command_refuses_what_cannot_be_meant"
    ),
    "--advise needs --precision fp16 or bf16, in which all other layers are": (
        "crosscheck/test_advice.py::test_the_command_refuses_what_cannot_be_meant"
    ),
    "-o writes the list of --advise, which is not asked for": (
        "crosscheck/test_advice.py::test_the_command_refuses_what_cannot_be_meant"
    ),
    "fp16 is disabled (VKNN_DISABLE, disable=): there is nothing to advise": (
        "crosscheck/test_advice.py::test_disabled_fp16_has_no_advice"
    ),
    "time or trials ran out: a shorter list may do (--time-limit)": (
        "crosscheck/test_advice.py::test_time_that_runs_out_is_told"
    ),
    "time_limit={}: it must be above 0 seconds": (
        "crosscheck/test_advice.py::test_options_that_cannot_be_meant"
    ),
    "tolerance={}: it must be above 0": (
        "crosscheck/test_advice.py::test_options_that_cannot_be_meant"
    ),
    "{} layers were not measured in time (--time-limit)": (
        "crosscheck/test_advice.py::test_time_that_runs_out_is_told"
    ),
    "{} more (--json has all)": ("crosscheck/test_advice.py::test_long_tables_are_cut"),
    "makes bits in a shape that the file leaves open; give output 1 a fixed shape": (
        "formats/tflite/test_random_operators.py::test_an_open_shape_of_bits"
    ),
    "--html is a page of one input, and there are many: name the worst one": (
        "reports/test_check_page.py::test_many_inputs_have_no_page"
    ),
    "give two saved profiles or records, or a model and --against with an engine or a file": (
        "crosscheck/test_against.py::test_options_of_the_other_comparison"
    ),
    "one of the two is a record of tensors: give two of them, or a model and --against": (
        "crosscheck/test_record_comparison.py::test_options_that_do_not_fit"
    ),
    "--iteration needs a file of Polygraphy's": (
        "crosscheck/test_record_comparison.py::test_options_that_do_not_fit"
    ),
    "name one (--runner)": "crosscheck/test_polygraphy.py::test_results_and_inputs",
    ": use {}": "crosscheck/test_engines.py::test_models_of_other_formats",
    "OpenVINO reads the models that vknn does (IR up to version 7) up to release 2020.4 only, so "
    "it cannot run here: record what an older one gives (docs/verification.md has the script, for "
    "opencv-python-inference-engine 4.2.0.3 and Python 3.8) and compare with --against FILE.npz": (
        "crosscheck/test_engines.py::test_models_of_other_formats"
    ),
    "{}: coremltools runs models on a Mac only: record its answers there (docs/verification.md) "
    "and compare with --against FILE.npz": (
        "crosscheck/test_engines.py::test_models_of_other_formats"
    ),
    "{} is not installed: pip install {}": (
        "crosscheck/test_engines.py::test_a_wheel_that_is_missing"
    ),
    "{} needs the model as a file: open it by its path": (
        "crosscheck/test_engines.py::test_a_model_in_memory"
    ),
    "{}: {} was not done within {} s; give it a longer timeout": (
        "crosscheck/test_engines.py::test_an_engine_that_crashes_or_never_ends"
    ),
    "--compiled is for what is measured: leave out --static": (
        "profiling/test_static_columns.py::test_options_that_do_not_go_together"
    ),
    "--{} needs --against": "crosscheck/test_against.py::test_options_of_the_other_comparison",
    "--against compares one model with an engine or a record: leave out the second file": (
        "crosscheck/test_against.py::test_options_of_the_other_comparison"
    ),
    "output {} is not made by the plan: a step on the host, or behind sizes that data decide, "
    "makes it; cut the network before (--outputs)": (
        "bundle/test_ports.py::test_what_the_plan_does_not_make_is_named"
    ),
    "{} {} of {} elements takes {} bytes in a buffer, the target allows {}: give a smaller shape "
    "or another target": "bundle/test_ports.py::test_what_is_too_large_is_named",
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
    "--capture-file needs --capture": "profiling/test_renderdoc.py::test_capture_file_alone",
    "a device is open, and RenderDoc sees only those that are opened after it: close all sessions "
    "first": "profiling/test_renderdoc.py::test_a_session_that_is_open",
    "install RenderDoc 1.2 or newer, with its library": (
        "profiling/test_renderdoc.py::test_no_renderdoc"
    ),
    "--check takes a command": (
        "reduction/test_reduce.py::test_commands_that_cannot_be_run_are_told"
    ),
    "--check {}: {}": "reduction/test_reduce.py::test_commands_that_cannot_be_run_are_told",
    "--check: {} cannot be run (exit code {}): {}": (
        "reduction/test_reduce.py::test_commands_that_cannot_be_run_are_told"
    ),
    "--check: {}: {}": "reduction/test_reduce.py::test_commands_that_cannot_be_run_are_told",
    "`kernel:Conv/winograd43` a kernel of an operator, as `vknn profile` shows them; `kernel:Conv` "
    "all of them, so that the host computes it": (
        "reduction/test_bisect.py::test_a_wrong_kernel_is_named"
    ),
    "`tuned:5f0a91c2` a choice that `vknn tune` made": (
        "reduction/test_bisect.py::test_a_tuned_choice_is_named"
    ),
    "no switch makes the difference, not even all of them together: try another device or driver, "
    "and `vknn reduce` for a small case": (
        "reduction/test_bisect.py::test_where_no_switch_helps_it_says_so"
    ),
    "node {} has no layer's name and type": (
        "formats/graph_folder/test_graph_folder.py::test_changed_documents_give_errors_or_results"
    ),
    "runs and checks it; `vknn run` with the same options gives its results. {}": (
        "reduction/test_reduce.py::test_a_wrong_kernel_is_named_and_alone"
    ),
    "the {} layer {} is one of somebody's own and is not registered: give the file that registers "
    "it (--layers, vknn.register_layer)": (
        "formats/graph_folder/test_graph_folder.py::test_a_layer_of_ones_own_is_asked_for"
    ),
    "timeout={}, limit={}: both must be above 0 seconds": (
        "reduction/test_reduce.py::test_a_folder_of_other_files_is_left_alone"
    ),
    "timeout={}: it must be above 0 seconds": ("reduction/test_bisect.py::test_no_time_is_refused"),
    "{} holds other files, such as {}: name a new folder": (
        "reduction/test_reduce.py::test_a_folder_of_other_files_is_left_alone"
    ),
    "{} was open when this process was forked, and its driver's threads stayed behind; close it "
    "before, or start processes by spawn": (
        "test_forks.py::test_a_driver_whose_threads_stay_behind"
    ),
    ": give the others with --input NAME=FILE": (
        "cli/test_cli.py::test_files_are_for_the_input_that_is_left"
    ),
    "--device-limits measures the device: it takes no model": (
        "profiling/test_limits.py::test_command_line"
    ),
    "--versus does not go with --{}": (
        "profiling/test_compare.py::test_versus_from_the_command_line"
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
    "{} did not finish within {} s on {}; raise VKNN_TIMEOUT (seconds) or use smaller inputs": (
        "runtime/test_executor.py::test_timeout_and_recovery"
    ),
    "; where those are of a recipe, give others": (
        "cli/test_inputs.py::test_wrong_numbers_of_numbers"
    ),
    "has external data, which a model in memory cannot have: open the model by its path, or save "
    "it as one file": ("formats/onnx/test_reader.py::test_external_data_and_models_in_memory"),
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
    "{} was not done within {} s; give it a longer timeout, or raise VKNN_TIMEOUT (seconds)": (
        "run_limits/test_runs.py::test_the_switch_holds_for_whole_runs"
    ),
    "the shader of layer {}: {}; or register the layer without a shader": (
        "formats/test_custom.py::test_without_a_compiler"
    ),
    "`vknn bench --device-limits` writes a new one": (
        "runtime/test_measured_speeds.py::test_damaged_files_are_ignored"
    ),
    "a session cannot be copied: open another, which may share its device": (
        "test_misuse.py::test_a_session_is_not_copied"
    ),
    "{} {} and is ignored; delete it, or set VKNN_CACHE_DIR": (
        "runtime/test_trusted_file.py::test_a_file_that_everybody_can_write"
    ),
    "the network and its device tensors need {} bytes on the device, more than the limit of {}; "
    "close tensors, or raise memory_limit (VKNN_MEMORY_LIMIT)": (
        "test_device_tensor_lifetimes.py::test_the_memory_limit_counts_them"
    ),
    "use smaller inputs, or raise memory_limit (VKNN_MEMORY_LIMIT)": (
        "test_memory_budget.py::test_a_session_keeps_to_its_limit"
    ),
    vk_result.LOST_REMEDY: "runtime/test_device.py::test_lost_device",
    vk_result.MEMORY_REMEDY: "runtime/test_device.py::test_memory_exhausted_while_building",
    "close sessions that are not needed": (
        "runtime/test_device.py::test_memory_exhausted_while_building"
    ),
    "raise VKNN_TIMEOUT (seconds)": "runtime/test_executor.py::test_timeout_and_recovery",
    "--latencies takes a number above 0": (
        "profiling/test_static.py::test_options_of_static_alone"
    ),
    "--{} needs --static": "profiling/test_static.py::test_options_of_static_alone",
    "--against shows a table: leave out --json": (
        "profiling/test_static.py::test_options_of_static_alone"
    ),
    "a static profile needs a Vulkan device: NumPy compiles nothing": (
        "profiling/test_static.py::test_numpy_compiles_nothing"
    ),
    "it is a null device, which computes nothing (set VKNN_NULL_DEVICE=1 to allow it)": (
        "runtime/test_device_selection.py::test_null_devices_are_never_taken_for_real_ones"
    ),
    "it is a null device, which computes nothing: give its name or index to use it": (
        "runtime/test_device_selection.py::test_null_devices_are_never_taken_for_real_ones"
    ),
    "{}: shader {} is {}; reinstall vknn": "runtime/test_shaders.py::test_stale_spirv_is_refused",
    "{}: {} is damaged; reinstall vknn": (
        "runtime/test_shaders.py::test_a_damaged_archive_is_refused"
    ),
    "{}: the compiled shaders are missing or damaged ({}); reinstall vknn": (
        "runtime/test_shaders.py::test_a_missing_archive_is_refused"
    ),
    "{}: {}; reinstall vknn": "runtime/test_shaders.py::test_a_missing_module_is_refused",
    "runs={}, timeout={}: both must be above 0": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
    "NumPy has no kernels to choose from: tuning needs a Vulkan device": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
    "--input {}: write it as NAME=COLUMN, an input and a column": (
        "scale/test_command.py::test_errors_are_lines"
    ),
    "the process was ended by {} before it computed anything, or at a record without an id: "
    "then --id names a column, and the job goes on behind such records": (
        "scale/test_ended_processes.py::test_a_deadly_record_without_an_id"
    ),
    "there is no output {}; there are {}": ("scale/test_answers.py::test_outputs_that_are_wanted"),
    "column {} has nulls, and .npz has no integers for these: --format jsonl": (
        "scale/test_answers.py::test_integers_that_are_null"
    ),
    "column {} has rows of different shapes ({}), which .npz has no place for: --format jsonl": (
        "scale/test_answers.py::test_conversions_that_cannot_be"
    ),
    "column {} is {}, which .npz has no place for: --format jsonl": (
        "scale/test_answers.py::test_kept_columns_keep_their_types"
    ),
    "device {} ({}) disagrees with NumPy: {}; `vknn verify` says which operator it is, and "
    "--device takes another device": ("scale/test_device_checks.py::test_the_first_check_refuses"),
    "{} has Parquet files of others: give another folder": (
        "scale/test_jobs.py::test_parquet_files_of_others"
    ),
    "{} is damaged: --restart begins the job anew": ("scale/test_jobs.py::test_a_damaged_job"),
    "the rows are suspect because device {} computed wrong: --device names another, such as "
    "numpy": ("scale/test_device_checks.py::test_suspect_rows_are_computed_again"),
    "the source has no id column: this job cannot be taken up again (--id names one)": (
        "scale/test_jobs.py::test_without_an_id"
    ),
    "{} has answers, and without an id column nothing says which records they are of: "
    "--restart begins anew, --id names a column": ("scale/test_jobs.py::test_without_an_id"),
    "{} holds another job: {}; give another folder, or --restart, which removes its answers": (
        "scale/test_jobs.py::test_another_job_is_refused"
    ),
    "there is no column {}; there are {}": ("scale/test_reading.py::test_ids"),
    "nothing says which column input {} is read from: --input {}=COLUMN does (columns={{}: "
    "COLUMN}); there are {}": ("scale/test_reading.py::test_the_column_of_an_input"),
    "there is no option {}; there are {}": ("scale/test_jobs.py::test_options_that_are_refused"),
    "  {} suspect rows: --redo-suspect computes them again": (
        "scale/test_device_checks.py::test_suspect_rows_are_computed_again"
    ),
    "{}={} is no share: write it as 1/1000, 0.1% or 0.001": (
        "scale/test_device_checks.py::test_shares_that_are_none"
    ),
    "the source is an empty list: give files, a folder or a pattern": (
        "scale/test_sources.py::test_what_is_refused"
    ),
    "`vknn batch-node` prints the options of ray start that offer them": (
        "scale/test_ray_devices.py::test_options_of_a_node_with_devices"
    ),
    "{} worker(s) need a processor each and reading another one, and the cluster has {}: start it "
    "with more, or give fewer workers": "scale/test_ray_devices.py::test_pools_of_a_cluster",
    "machine {} has vknn {}, and this one {}: install the same everywhere": (
        "scale/test_ray_jobs.py::test_a_machine_with_another_vknn"
    ),
    "machine {} has vknn {}, and the job is of vknn {}: install the same everywhere": (
        "scale/test_ray_devices.py::test_a_worker_of_another_vknn"
    ),
    "machine {}: {}; install one there, or start its Ray without the resources that offer "
    "devices": ("scale/test_ray_jobs.py::test_a_machine_without_a_driver"),
    "time and number of steps of a search must be above 0": (
        "crosscheck/test_planted_faults.py::test_a_search_without_an_end"
    ),
    "{} {}: write it as MODULE:FUNCTION or FILE.py:FUNCTION": (
        "cli/test_verify_inputs.py::test_metrics"
    ),
    "--dump writes the arrays of one input, and there are many": (
        "cli/test_verify_inputs.py::test_what_cannot_be_meant"
    ),
    "--push: {} is not NAME=FORMULA": "kernel_lab/test_sweep.py::test_on_the_command_line",
    "--tolerance takes a number of at least 0": "kernel_lab/test_run.py::test_exit_codes_and_json",
    "--groups and --push are of a sweep: give --sweep, too": (
        "kernel_lab/test_sweep.py::test_on_the_command_line"
    ),
    "sweep: {} is not known; known: {}": "kernel_lab/test_sweep.py::test_wrong_axes",
    "push constants: {} not known; known: {}": "kernel_lab/test_sweep.py::test_wrong_axes",
    "{}: {} is not known; known: {}": "kernel_lab/test_formula.py::test_what_is_none",
    "{} has no {}, which this kernel needs: choose another device (--device), or extract the layer "
    "there": ("kernel_lab/test_run.py::test_a_device_without_what_it_needs"),
    "{} has {} dispatches: choose one with --dispatch (dispatch=)": (
        "kernel_lab/test_extraction.py::test_choices_are_listed"
    ),
    "{}: there is something already: give a new folder": (
        "kernel_lab/test_extraction.py::test_a_folder_that_is_taken"
    ),
    "{}: there is no such file; `vknn kernel extract` writes a kernel's folder": (
        "kernel_lab/test_extraction.py::test_on_the_command_line"
    ),
    "groups or push constants may have to follow (--groups, --push)": (
        "kernel_lab/test_sweep.py::test_formulas"
    ),
    "also with half the groups: they must follow (--groups, groups=)": (
        "kernel_lab/test_sweep.py::test_groups_that_do_nothing_are_said"
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
