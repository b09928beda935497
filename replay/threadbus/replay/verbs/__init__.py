"""The verbs of ``busreplay``, one module each; imported when the verb is typed."""
