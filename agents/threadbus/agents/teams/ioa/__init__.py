"""Agents that find one another, form teams and teams within teams, and pause until work is done.

A host is asked and knows nobody. It searches the registry, forms a team in a thread, gives out work
and is woken when all of it has ended. One of its members forms a team of its own in a thread below,
whose conclusion goes up as the member's result. After the Internet of Agents (docs/ioa.md).
"""
