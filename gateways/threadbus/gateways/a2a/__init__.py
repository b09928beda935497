"""A2A: every bus agent is an A2A agent, every A2A agent can join the bus."""
