"""The admin's live page: what is loaded, who waits, what memory is left, what happened and why."""
