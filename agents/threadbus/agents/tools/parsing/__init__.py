"""Parsers of documents; they run in a bounded process of their own, see :mod:`.worker`.

A parser gets bytes that nobody trusts and a :class:`~.budget.Budget` for what it may return.
Nothing here imports the rest of the agents.
"""
