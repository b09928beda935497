"""Agents as services on the bus, and the model port they think with."""
