"""What each request has used: counted, journalled, written into the database."""
