"""Made by tools/tflite_schema.py from tflite.fbs."""
