"""What sets a machine up, tests it and tells what it is made of: each is run by a target of make."""
