"""Faults injected into runs on a real server, and runs without any: what is found, and what not.

``python -m benchmarks.faults`` runs them all; a scenario is a script with the truth about it.
"""
