"""The playground: people chat with the models of their teams, by their session."""
