"""Models that are fetched: from Hugging Face, from a URL, from Ollama's registry.

A row of `Download` is both the wish and the queue; work.py does it in the jobs process. What people
ask for is in asking.py, what they are shown in shown.py. docs/decisions/0016 says why.
"""
