"""Texts of remedies of jobs of many records, which their own tests apply."""

from __future__ import annotations

SCALE = {
    "give the command again, which takes the job up where it was": (
        "scale/test_lost_cluster.py::test_a_cluster_of_a_command"
    ),
    "--input {}: write it as NAME=COLUMN, an input and a column": (
        "scale/test_command.py::test_errors_are_lines"
    ),
    "{}the process was ended by {} before it computed anything, or at a record without an id: "
    "then --id names a column, and the job goes on behind such records": (
        "scale/test_ended_processes.py::test_a_deadly_record_without_an_id"
    ),
    "{} is not used any more: {} on it, the last of them {}; go on with another device, or with "
    "numpy: --device": ("scale/test_ended_processes.py::test_a_device_at_which_three_records_kill"),
    "there is no output {}; there are {}": ("scale/test_answers.py::test_outputs_that_are_wanted"),
    "column {} has nulls, and .npz has no integers for these: --format jsonl": (
        "scale/test_answers.py::test_integers_that_are_null"
    ),
    "column {} has rows of different shapes ({}), which .npz has no place for: --format jsonl": (
        "scale/test_answers.py::test_conversions_that_cannot_be"
    ),
    "device {} ({}) disagrees with NumPy: {}; `vknn verify` says which operator it is, and "
    "--device takes another device": ("scale/test_device_checks.py::test_the_first_check_refuses"),
    "--format {} would write {}, which is in the source: give another folder": (
        "scale/test_command.py::test_a_source_is_not_written_over"
    ),
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
    "{}column {} is {}, of which no rows can be taken: write it as string or binary": (
        "scale/test_reading.py::test_columns_of_views"
    ),
    "{}: Ray finds no account of what is done in folders with '?' in their names: give another "
    "folder, or --engine local": (
        "scale/test_portions.py::test_a_folder_that_ray_cannot_read_back"
    ),
    "{} holds the answers' own files: give another folder": (
        "scale/test_sources.py::test_a_pattern_that_means_answers_as_well"
    ),
    "{} has answers whose ids are {}, and column {} is {} now: give another folder, or --restart, "
    "which removes its answers": (
        "scale/test_jobs.py::test_ids_of_another_type_are_not_computed_again"
    ),
    "nothing says which column input {} is read from: --input {}=COLUMN does (columns={{}: "
    "COLUMN}); there are {}": ("scale/test_reading.py::test_the_column_of_an_input"),
    "there is no option {}; there are {}": ("scale/test_jobs.py::test_options_that_are_refused"),
    "without an id column nothing says which records failed: --restart": (
        "scale/test_redo_errors.py::test_what_is_refused"
    ),
    "  {} suspect rows: --redo-suspect computes them again": (
        "scale/test_device_checks.py::test_suspect_rows_are_computed_again"
    ),
    "{}={} is no share: write it as 1/1000, 0.1% or 0.001": (
        "scale/test_device_checks.py::test_shares_that_are_none"
    ),
    "a source has no name: give files, a folder or a pattern": (
        "scale/test_sources.py::test_what_is_refused"
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
    "--format {}: only answers in a folder of this machine are converted, and {} is none": (
        "scale/test_command.py::test_a_format_that_cannot_be_written_there_is_said_at_once"
    ),
}
