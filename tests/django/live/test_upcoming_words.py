"""What the screen says of a request that came now."""

from __future__ import annotations

import pytest

from scheduler.live_page.words import upcoming_told
from scheduler.protocol import Upcoming

CAME = "A request that came now would"


@pytest.mark.parametrize(
    ("coming", "words"),
    [
        (Upcoming(0.0), f"{CAME} be answered at once."),
        (
            Upcoming(None, "load"),
            f"{CAME} wait, for how long is not known: its model is loaded first.",
        ),
        (
            Upcoming(12.4, "room", ("a", "b")),
            f"{CAME} wait, about 12 sec: room is made for its model, which is then loaded."
            " a, b would make way.",
        ),
        (
            Upcoming(3.0, "load", failed=True),
            f"{CAME} wait, about 3 sec: its model is loaded first. The last load has failed, and"
            " would be tried again.",
        ),
        (Upcoming(None, refused="it is broken"), f"{CAME} be refused: it is broken."),
    ],
)
def test_it_says_how_long_and_for_what_or_why_not(coming: Upcoming, words: str) -> None:
    assert upcoming_told(coming) == words
