"""The failure analysis on labelled runs of other systems: ``python -m benchmarks.analysis``."""
