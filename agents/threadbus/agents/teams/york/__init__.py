"""Generate, validate, refine: a team that makes an Ecore model which is right in form and meaning.

The collaboration agent has the solution agent write the model in Emfatic, the syntactic supervisor
check it by the rules of the notation, and the semantic supervisor judge it against the request.
What either finds wrong goes into the next attempt; after the last one the failure carries what was
wrong with each. After "generate, check syntax, check semantics, refine" of the comparison of MCP
and A2A that docs/york.md names.
"""
