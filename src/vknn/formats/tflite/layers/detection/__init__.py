"""Non-maximum suppression and the post-processing of object detectors."""
