"""The one exception for faults that a user can mend."""


class FedreproError(Exception):
    """A fault in what the user gave or in a file on disk.

    The message names the file, key or value, what is allowed, and what to do. Entry points print it
    without a traceback and exit non-zero.
    """
