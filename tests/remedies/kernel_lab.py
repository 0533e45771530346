"""Texts of remedies of the kernel lab, which their own tests apply."""

from __future__ import annotations

KERNEL_LAB = {
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
