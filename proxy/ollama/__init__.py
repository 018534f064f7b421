"""Ollama's API, as a translation at the edge: a request becomes one of llama-server's own, which is
carried like all others, and what comes back is told in Ollama's words."""
