"""Layers of object detectors: priors, proposals, detection outputs."""
