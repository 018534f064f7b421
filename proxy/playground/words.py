"""What the playground's script says, in the reader's language."""

from __future__ import annotations

from django.utils.translation import gettext as _


def words() -> dict[str, object]:
    """By the names that the script knows them by; {…} is filled in there."""
    return {
        "you": _("You"),
        "picture": _("Picture"),
        "remove": _("Remove"),
        "copy": _("Copy"),
        "none": _("none"),
        "noModels": _(
            "There is no model here that this team may use. Whoever administers this gateway can"
            " add one."
        ),
        "noPicture": _("{name} is no picture that can be read."),
        "takesNoPictures": _(
            "{name} takes no pictures, and this chat has some: choose a model that does, or begin a"
            " new chat."
        ),
        "manyPictures": _("At most {count} pictures go with one message."),
        "reasoning": _("Reasoning"),
        "calls": _("Calls {name}"),
        "resultOf": _("Result of {name}"),
        "sent": _("Sent."),
        "answering": _("Answering …"),
        "stopped": _("Stopped."),
        "unanswered": _("Not answered, and not sent along any more."),
        "cut": _("The answer broke off before its end. Try again."),
        "away": _("The gateway did not answer. Is the network there? Try again."),
        "logIn": _("Log in"),
        "number": _("Write a number that this field can take."),
        "json": _("This is no JSON: {problem}"),
        "tools": _('Write a list such as [{"type": "function", "function": {"name": …}}].'),
        "firstToken": _("To the first token"),
        "inQueue": _("Of that in the queue"),
        "forLoad": _("Of that for the load"),
        "speed": _("Tokens per second"),
        "read": _("Tokens read"),
        "cached": _("{count} of them kept from before"),
        "written": _("Tokens written"),
        "ended": _("It ended"),
        "ends": {
            "stop": _("by itself"),
            "length": _("at the limit of tokens"),
            "tool_calls": _("with a call of a tool"),
        },
        "states": {
            "loaded": _("loaded"),
            "loading": _("loading"),
            "sleeping": _("sleeping"),
            "queued": _("queued"),
            "draining": _("about to make way"),
            "stopping": _("ending"),
            "downloading": _("downloading"),
        },
    }
