"""What others do, rule by rule, as policies of the simulator.

Each says in its docstring from which text its rules are taken: § are sections of the notes that
were taken from the rival's source and from runs of it. Where they leave something open, what
favours the rival was chosen, and the docstring says so. What is not scheduling (how fast a shell
notices that a child is ready, what an error looks like) is the same for all.
"""
