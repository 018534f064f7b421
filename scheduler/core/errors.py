"""Everything the core may raise. All of them mean a bug in the caller or in the core."""


class CoreError(Exception):
    """Base of the scheduling errors."""


class IllegalTransition(CoreError):
    """An instance was given a cue that its state does not take."""
