"""Errors of bundles and results. Commands import this module at their start, so it imports nothing."""


class BundleError(Exception):
    """A bundle or a result that cannot be made, signed or read: what is wrong, and what to do about it."""


class ResultError(ValueError):
    """A record that is not as Muster writes it: where, and what is wrong there."""
