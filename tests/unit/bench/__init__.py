"""The parts of the benches that could lie."""
