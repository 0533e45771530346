"""Texts of remedies of cross-checks and of what reduces models, which their own tests apply."""

from __future__ import annotations

VERIFICATION = {
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
    "--{} needs --against": "crosscheck/test_against.py::test_options_of_the_other_comparison",
    "--against compares one model with an engine or a record: leave out the second file": (
        "crosscheck/test_against.py::test_options_of_the_other_comparison"
    ),
    "time and number of steps of a search must be above 0": (
        "crosscheck/test_planted_faults.py::test_a_search_without_an_end"
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
    "runs and checks it; `vknn run` with the same options gives its results. {}": (
        "reduction/test_reduce.py::test_a_wrong_kernel_is_named_and_alone"
    ),
    "timeout={}, limit={}: both must be above 0 seconds": (
        "reduction/test_reduce.py::test_a_folder_of_other_files_is_left_alone"
    ),
    "timeout={}: it must be above 0 seconds": ("reduction/test_bisect.py::test_no_time_is_refused"),
    "{} holds other files, such as {}: name a new folder": (
        "reduction/test_reduce.py::test_a_folder_of_other_files_is_left_alone"
    ),
}
