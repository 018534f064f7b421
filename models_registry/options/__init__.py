"""What the engine can be told: its options, layer by layer, and what may not be set."""
