"""One command in a bounded process.

:mod:`.bounded` runs in the agent and starts :mod:`.warden` as a process of its own; the warden
applies :mod:`.isolation`, starts the command, watches it and leaves nothing of it behind.
"""
