"""Texts of remedies of the tools around bundles, which their own tests apply."""

from __future__ import annotations

_READER, _TRIAL = "bundle/test_reader.py::", "bundle/test_trial.py::"
BUNDLE_TOOLS = {
    "`vknn bundle` shows what is in it and runs it with --check, and vknn-run runs it": (
        "bundle/test_command.py::test_a_bundle_is_described"
    ),
    "`vknn report` shows profiles of vknn-run": (
        "bundle/test_runner_profile.py::test_a_phones_profile_is_shown"
    ),
    "--runner needs --check": "bundle/test_command.py::test_wrong_uses_are_told",
    "the library of vknn_run is not named: give library=, or VKNN_RUNNER, such as "
    "build/libvknn_run.so (docs/phones.md has how to build it)": (
        "bundle/test_library.py::test_the_library_has_to_be_named"
    ),
    "there is no C compiler ({}): install gcc": f"{_TRIAL}test_why_there_is_no_program",
    "vknn is installed without the sources of vknn-run: name the program with --runner": (
        f"{_TRIAL}test_why_there_is_no_program"
    ),
    "there is no {} {}; there are {}": "bundle/test_library.py::test_errors_have_their_kinds",
    "there is no input {}; there are {}": (
        f"{_READER}test_plans_made_back_compute_what_the_model_does"
    ),
    "this is no bundle (.vkb): `vknn export` writes them": (
        f"{_READER}test_other_files_and_newer_versions"
    ),
    "version {} of the format is newer than this vknn, which reads up to {}: upgrade it "
    "(pip install -U vknn)": f"{_READER}test_other_files_and_newer_versions",
    "{} suits no plan: {}: export for --target generic, or choose another --device": (
        "bundle/test_suitability.py::test_a_device_that_suits_no_plan"
    ),
    "{}: plan {} ({}) cannot run on {}, which lacks {}: choose another with --plan or --device": (
        "bundle/test_suitability.py::test_a_device_that_suits_no_plan"
    ),
    "{}: --verify needs the model's layers, which vknn-run does not have: take a profile of vknn "
    "profile --save": "bundle/test_runner_profile.py::test_damaged_profiles_are_refused",
    "{}: vknn-run keeps the means of its runs alone, by which no difference is told from chance: "
    "compare files of vknn profile --save, or look at each with vknn report": (
        "bundle/test_runner_profile.py::test_two_of_them_are_not_compared"
    ),
    "{}: it has no example with answers, so there is nothing to compare with: export it "
    "with --example FILE": (f"{_TRIAL}test_a_check_needs_an_example"),
}
