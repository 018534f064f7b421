"""From nothing to a first answer: a model, a key, a client."""
