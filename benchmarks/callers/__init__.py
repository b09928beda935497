"""Programs that ask York's collaboration for a model, one for each wire; see benchmarks.wires."""
