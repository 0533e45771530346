"""The parts of compare_ncnn.py."""
