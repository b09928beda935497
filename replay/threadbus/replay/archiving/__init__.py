"""``bus archive``: ended super-tasks go to files, then out of the log."""
