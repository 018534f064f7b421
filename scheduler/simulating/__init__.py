"""A machine that is only imagined, with its clients and their traces, in virtual time
(docs/scheduling.md).

Pure, like the core that it drives: the same trace, policy and seed give the same figures.
"""
