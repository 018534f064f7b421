"""What devices there are, how much of each is free, and who uses it.

`readings.py` puts it together, `watch.py` looks again and again. All but the watch block: they run
in its thread."""
