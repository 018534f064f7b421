"""The control socket's messages by subject; protocol.py is where others take them from."""
