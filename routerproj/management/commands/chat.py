"""`manage.py chat MODEL`: a conversation in a terminal; what is piped in gets one answer."""

from __future__ import annotations

import argparse
import os
import sys
import unicodedata
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandParser

from models_registry.operating import OperatorCommand
from routerproj.chatting import Conversation, Figures, Piece, Refusal
from routerproj.serve.state_lock import served_url

USUAL_URL = "http://127.0.0.1:8080"
KEY_VARIABLE = "CORRAL_KEY"
PROMPT = "> "
HELP = "/clear forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C stops an answer"
FOR_GOOD = (401, 403, 404)
"""What no other question changes: the key, or the model's name."""
_OBEYED = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What turns the direction of the text around."""


class Command(OperatorCommand):
    help = "Chat with a model, through the gateway as any client."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name or an alias")
        parser.add_argument(
            "--key", help=f"an API key; unless told {KEY_VARIABLE}, which the process list hides"
        )
        parser.add_argument(
            "--url",
            type=_url,
            help=f"of the gateway; unless told that of the `serve` on CORRAL_VAR, else {USUAL_URL}",
        )
        parser.add_argument("--system", default="", help="what the model is told before all")
        parser.add_argument(
            "--max-tokens", type=int, metavar="N", help="of an answer; unless told the model's own"
        )

    def work(self, options: dict[str, Any]) -> None:
        url = options["url"] or served_url(settings.CORRAL_VAR) or USUAL_URL
        key = options["key"] or os.environ.get(KEY_VARIABLE, "")
        talk = Conversation(url, key, options["model"], options["system"], options["max_tokens"])
        if sys.stdin.isatty():
            self._chat(talk)
        else:
            self._answer(talk, sys.stdin.read())

    def _answer(self, talk: Conversation, words: str) -> None:
        """One, and nothing else on stdout."""
        try:
            self._show(talk, words)
        except Refusal as refusal:
            self.decline(explained(refusal))

    def _chat(self, talk: Conversation) -> None:
        self._note(f"{talk.model} at {talk.url}. {HELP}.")
        ask = _asker(own_prompt=not self.screen.is_terminal)
        while True:
            try:
                words = ask().strip()
            except KeyboardInterrupt:
                self._note("\n/exit or Ctrl-D ends it")
                continue
            except EOFError:
                self._note("")
                return
            if words == "/exit":
                return
            if words == "/clear":
                talk.clear()
                self._note("forgotten")
            elif words in ("/help", "/?"):
                self._note(HELP)
            elif words:
                self._turn(talk, words)

    def _turn(self, talk: Conversation, words: str) -> None:
        try:
            self._note(self._show(talk, words).told())
        except KeyboardInterrupt:
            self.screen.clear_progress()
            self._note("\n(stopped)")
        except Refusal as refusal:
            if refusal.status in FOR_GOOD:
                self.decline(explained(refusal))
            self.screen.clear_progress()
            self.stderr.write(explained(refusal), str)

    def _show(self, talk: Conversation, words: str) -> Figures:
        """Raises Refusal. Thoughts are shown on a terminal only."""
        figures, last = Figures(), "\n"
        with closing(talk.say(words, figures, self._waiting)) as pieces:
            for piece in pieces:
                if shown := self._shown(piece):
                    self.screen.clear_progress()
                    self._write(shown)
                    last = piece.text[-1]
        self.screen.clear_progress()
        if last != "\n":
            self._write("\n")
        return figures

    def _shown(self, piece: Piece) -> str:
        if not self.screen.is_terminal:
            return piece.text if piece.kind == "text" else ""
        text = harmless(piece.text)
        return self.screen.painted(text, "dim") if piece.kind == "thought" else text

    def _waiting(self, seconds: float) -> None:
        if self.screen.is_terminal:
            self.screen.progress(f"waits for its answer, {seconds:.0f} s", "")

    def _note(self, text: str) -> None:
        """What is no answer does not get into where these are written to."""
        if self.screen.is_terminal:
            self.screen.line(self.screen.painted(text, "dim"))
        else:
            self.stderr.write(text, str)

    def _write(self, text: str) -> None:
        self.stdout.write(text, ending="")
        self.stdout.flush()


def explained(refusal: Refusal) -> str:
    """With what to do here, where only this command knows it."""
    if refusal.status == 401:
        makes = "`manage.py createkey NAME` makes one"
        return f"{refusal} Here it is given by {KEY_VARIABLE} or --key; {makes}."
    return str(refusal)


def harmless(text: str) -> str:
    """Nothing that a terminal obeys, but for the ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if _is_obeyed(character) else character for character in text
    )


def _is_obeyed(character: str) -> bool:
    if character in "\n\t":
        return False
    return character in _OBEYED or unicodedata.category(character) == "Cc"


def _asker(*, own_prompt: bool) -> Callable[[], str]:
    """Asks for the next line; where answers go into a file, the prompt goes to stderr."""
    if own_prompt:

        def ask() -> str:
            sys.stderr.write(PROMPT)
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line

        return ask
    with suppress(ImportError):  # without it a line cannot be edited or called back
        import readline  # noqa: F401
    return lambda: input(PROMPT)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise argparse.ArgumentTypeError(f"{text!r} is none such as {USUAL_URL}")
    return text
