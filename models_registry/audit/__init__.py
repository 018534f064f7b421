"""The audit trail: who changed which preset, key or limit, who loaded what, when and from where.

`watching` records what is saved and deleted by signals, `bulk` (of the registry) what is written
in bulk, `writing.record` what changes no row. Who acts is in `actors`.
"""
