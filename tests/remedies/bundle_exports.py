"""Texts of remedies of exports of bundles, which their own tests apply."""

from __future__ import annotations

BUNDLE_EXPORTS = {
    "the bundle would take the place of {}, a file of the model: give another path": (
        "bundle/test_export_names.py::test_a_bundle_takes_no_place_of_the_models_files"
    ),
    "the example says {} of output {}: {}; give a real input as the example{}": (
        "bundle/test_wrong_layers.py::test_an_answer_that_anything_comes_near_to_is_told"
    ),
    "input {} is fixed to an array of shape {} and given the shape {}: give an array of that shape,"
    " or a number": "bundle/test_export_fixed.py::test_a_shape_beside_a_fixed_array",
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
    "export it with --precision fp32, or for another --target, beside which it gets fp32": (
        "bundle/test_export.py::test_targets_are_told_apart"
    ),
    "the example of input {} has numbers beyond 32 bits, of which a device takes the low ones: "
    "give smaller numbers": "bundle/test_whole_numbers.py::test_an_example_beyond_32_bits",
    "the example of picture {} has numbers that are no pixels, whole ones from 0 to 255: give "
    "these (scale and bias are part of the network)": (
        "bundle/test_export_pictures.py::test_numbers_that_are_no_pixels"
    ),
    "change its shader, or cut the network in front of it with --outputs": (
        "bundle/test_export_custom.py::test_shaders_that_no_bundle_has"
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
    "{} {} has elements of type {}, which no device holds; {}cut the network with --outputs, or"
    " convert it beforehand": ("bundle/test_export_reasons.py::test_strings"),
    "fix it with --fixed, ": "bundle/test_export_reasons.py::test_strings",
    "{} {} has no elements; give another shape with --shape": (
        "bundle/test_export_reasons.py::test_tensors_without_elements"
    ),
    "{}: its shapes hang on data that are computed at run time; {}, or fix with --fixed the "
    "inputs that decide: {}": ("bundle/test_export_reasons.py::test_every_layer_is_named"),
    "{}: loops, branches or computed shapes, of which data decide how they go on; {}, or fix "
    "with --fixed the inputs that decide{} {}": (
        "bundle/test_export_reasons.py::test_a_branch_on_data"
    ),
    "output {} is not made by the plan: a step on the host, or behind sizes that data decide, "
    "makes it; cut the network before (--outputs)": (
        "bundle/test_ports.py::test_what_the_plan_does_not_make_is_named"
    ),
    "{} {} of {} elements takes {} bytes in a buffer, the target allows {}: give a smaller shape "
    "or another target": "bundle/test_ports.py::test_what_is_too_large_is_named",
    "{}s {} and {} have the same name in a bundle: name them apart in the model, or leave "
    "one out with --outputs or --fixed": (
        "bundle/test_export_names.py::test_ports_of_one_name_are_refused"
    ),
    "{} {}... has a name of {} bytes, in a bundle at most {}: give it a shorter one in the model": (
        "bundle/test_export_names.py::test_names_and_numbers_of_ports_have_an_end"
    ),
    "{}: leave outputs out with --outputs, or fix inputs with --fixed": (
        "bundle/test_export_names.py::test_names_and_numbers_of_ports_have_an_end"
    ),
    "the example has no arrays: give some, True for one that is made up, or False for none": (
        "bundle/test_export_names.py::test_an_example_without_arrays_is_refused"
    ),
    ", or leave the example out with --no-example": (
        "bundle/test_export_names.py::test_an_example_is_work_of_the_host"
    ),
    "give smaller shapes with --shape, or cut the network with --outputs": (
        "bundle/test_export_custom.py::test_work_that_no_run_does"
    ),
    "has a variable of descriptor set {}, binding {}; there are bindings 0 to {} of set 0": (
        "bundle/test_export_custom.py::test_bindings_that_no_bundle_has"
    ),
    "the plans have {} pipelines in all, more than a runner looks through: make several "
    "bundles, of fewer shapes (--shape) or targets (--target)": (
        "bundle/test_agreement.py::test_more_pipelines_than_a_runner_looks_through"
    ),
}
