"""What people bring from llama-swap and Ollama: read into a plan, which is then applied."""
