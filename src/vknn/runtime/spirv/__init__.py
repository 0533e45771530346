"""SPIR-V: from GLSL sources to modules, completed and specialized."""
