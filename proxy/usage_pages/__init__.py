"""Usage as people and programs see it: who may see what, sums over any time, CSV, charts."""
