"""Anemoi: a semi-centralised team that refines its plan together, judges, votes and submits.

The planner opens a thread with everybody and puts a plan into it; workers do its steps; the
critique judges each result; whoever has a better plan says so; a candidate answer is put to the
vote, and the answer-finding agent submits it. What happens when is decided by code over the typed
events of the thread (``board``, ``moves``); models say what the events hold. ``playbook.toml`` lets
the team run without a model.
"""
