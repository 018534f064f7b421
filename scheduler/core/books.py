"""Everything that the rules look at and change: who waits, who runs, what is known."""

from __future__ import annotations

from .demand import Demand
from .failures import Failures
from .instances import Fleet
from .learned import Learned
from .ledger import Ledger
from .order import Order
from .shares import Shares
from .sizes import Bytes
from .values import Config, PresetName, PresetSpec
from .wait_queue import WaitQueue


class Books:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.presets: dict[PresetName, PresetSpec] = {}
        self.shutting_down = False
        self.fleet = Fleet(config.oversubscribe)
        self.queue = WaitQueue(config)
        self.failures = Failures(config)
        self.learned = Learned(self.presets)
        self.demand = Demand()
        self.shares = Shares(config, self.learned)
        self.order = Order(self.shares, config)
        self.ledger = Ledger(config.returning_seconds)
        self.growing: tuple[PresetName, ...] = ()
        """Presets that may have more than one instance."""
        self.kept_apart = False  # whether a group keeps any presets apart
        self.guessed: set[PresetName] = set()
        """Presets that have waited for their measurement once, and were loaded by a guess (L5)."""
        self.edits = 0  # how often the presets have changed
        self.surplus: dict[PresetName, Bytes] = {}
        """What instances took beyond their grant: the preset's next need has it in (L2)."""
