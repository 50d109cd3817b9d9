"""The records of a benchmark as frozen dataclasses: `bench.json` and `result.json`, validated when they are read."""
