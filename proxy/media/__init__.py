"""Images, sounds and films of requests: those that a body names by an address are fetched here,
where the administrator allows it, or refused. Whoever answers is never left to fetch them."""
