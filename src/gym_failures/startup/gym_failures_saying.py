"""Say something on standard error without ever being what a program ends of.

Nothing is left in a buffer: what cannot be written there would be found when Python ends, and change its exit status.
"""

import os
import sys


def say(line: str) -> None:
    """Write one line to standard error; nothing where that is closed, full or broken."""
    text = f"gym-failures: {line}\n"
    try:
        number = sys.stderr.fileno()
    except Exception:  # noqa: BLE001 - there is none, or it is in the program's memory
        number = None
    try:
        if number is not None:
            os.write(number, text.encode("utf-8", "backslashreplace"))
        elif sys.stderr is not None:
            sys.stderr.write(text)
    except Exception:  # noqa: BLE001, S110 - nobody can be told
        pass
