"""The pages on which people make, rotate and revoke their own keys, be they staff or not."""
