"""Usage summed up per hour and per day: raised with each record, made anew, kept for some time."""
