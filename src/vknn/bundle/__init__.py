"""Bundles: a network's plans, SPIR-V and weights in one file, which ``runner/vknn_run.c`` runs."""
