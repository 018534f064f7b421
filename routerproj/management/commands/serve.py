"""`manage.py serve`: everything, with one command and one Ctrl-C."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from routerproj.serve.main import main
from routerproj.serve.options import USAGE


class Command(BaseCommand):
    help = "Serves the gateway and the admin; starts and watches scheduler, web and jobs."

    def run_from_argv(self, argv: list[str]) -> None:
        # Not Django's parser: any option of llama-server may follow.
        sys.exit(main(argv[2:], sys.stdout, sys.stderr))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        self.stdout.write(USAGE)

    def handle(self, *args: Any, **options: Any) -> None:
        """From Python, with llama-server's spelling: call_command("serve", "--port", "0")."""
        sys.exit(main(list(args), sys.stdout, sys.stderr))
