"""MCP: any MCP host is an agent on the bus, any bus agent is a tool, any MCP server is an agent.

:mod:`.server` and what it imports is the first half, :mod:`.client` the second. What turns calls
into events and events into results (:mod:`.arguments`, :mod:`.results`, :mod:`.translate`,
:mod:`.failures`) is pure. Import from the modules: all but these need the extra ``mcp``.
"""
