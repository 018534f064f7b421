"""What models have read of conversations, kept over the end of their processes: the KV cache of a
slot goes into a file when its instance has to go, and into a slot of the next one."""
