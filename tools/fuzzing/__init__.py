"""Parts of the fuzzer, tools/fuzz."""
