"""The first team: a planner, a document reader, a coder and a writer look at real files.

The question carries the files. The planner proposes a plan, gives the report to the document
agent and the data to the coder at the same time, and has the answer agent write down what both
found. ``playbook.toml`` lets the team run without a model.
"""
