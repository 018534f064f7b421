"""What sets a machine up, tests it and tells what it is made of: targets of make run them."""
