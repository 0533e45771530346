"""Parts of modelled.py and calibration.py: engines' calls counted, and costs fitted to times."""
