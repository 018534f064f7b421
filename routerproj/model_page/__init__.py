"""A model's page in the admin: what it is, how it is started, what it took, who used it, and what
its processes did and said, now and in earlier runs."""
