"""With which status the command ends; scripts rely on these."""

from typing import Final

FAILED: Final = 1
"""The answer is no: with `--exit-code` something has failed; the demo did not run through, or its reports differ."""
USAGE: Final = 2
"""The command was called in a wrong way, such as with a file that does not exist; as in click."""
UNREADABLE: Final = 3
"""Nothing that was given could be read."""
SKIPPED: Final = 4
"""With `--strict`: something that was given could not be read."""
UNWRITABLE: Final = 5
"""The result could not be written, such as to a full disk."""
NOT_RUN: Final = 126
"""`run` could not run its command, which is there; as in POSIX's `env` and `nohup`."""
NOT_FOUND: Final = 127
"""`run` did not find its command; as there."""
NOBODY_READS: Final = 141
"""Whoever read the output stopped, as `head` does; what shells say of a program that SIGPIPE ended (128 + 13)."""
