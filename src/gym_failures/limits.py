"""Every bound of the package: what it limits, its unit, and where the number comes from.

Standard library only, so that tools can read the bounds without any dependency.
"""

from typing import Final

# --- Records. The published failure records of NeMo Gym (`nemo_gym.core.failure_records`) set these. ------------------

ID_LENGTH: Final = 128
"""Longest operation, attempt, cause or failure id of a record, in characters."""

TYPE_NAME_LENGTH: Final = 256
"""Longest name of an exception's type, in characters."""

NAME_LENGTH: Final = 256
"""Longest operation, provider, sandbox, execution or request name, in characters."""

REASON_LENGTH: Final = 2_000
"""Longest free text (failure reason, foreign message, provider's status reason), in characters."""

HTTP_STATUS_MIN: Final = 100
"""Lowest HTTP status; RFC 9110, section 15."""

HTTP_STATUS_MAX: Final = 599
"""Highest HTTP status; RFC 9110, section 15."""

# --- Kinds. A peer can send any number of names of any length; neither memory nor log may grow with them. -------------

UNREGISTERED_KINDS_NAMED: Final = 100
"""Unregistered kinds that one process names in warnings, in names; ours, four times the vocabulary."""

KIND_LENGTH_LOGGED: Final = 128
"""Start of an unregistered kind that is remembered and logged, in characters; the longest kind on the wire."""

# --- Header and attributes. What is encoded stays within what is decoded. ---------------------------------------------

WIRE_ID_LENGTH: Final = 128
"""Longest event id, cause id and kind on the wire and in attributes, in characters (the shortest has 1); as in the
records, for the fields that they leave open too."""

HEADER_BUDGET: Final = 2_048
"""Default size of a header value, in bytes; half of what nginx gives to all headers of a reply."""

HEADER_HARD_LIMIT: Final = 8_000
"""Largest size that a header value may be given, in bytes; aiohttp refuses a field over 8,190 (aiohttp#2304)."""

DECODE_LENGTH: Final = 8_192
"""Longest header value that is read, in characters; the power of two above the hard limit."""

DECODE_INFLATED: Final = 64 * 1_024
"""Largest report after decompression, in bytes; ours, eight times the longest value."""

DECODE_EVENTS: Final = 512
"""Events read from one header value, in events; ours, as many as the log of one request holds."""

DECODE_DEPTH: Final = 8
"""Deepest nesting of objects and arrays that is read, in levels; ours, twice what a report has."""

DECODE_REJECT_SECONDS: Final = 0.001
"""Longest time to refuse a header value, in seconds; ours, held by the benchmarks."""

DECODE_ACCEPT_SECONDS: Final = 0.005
"""Longest time to read a header value, in seconds; ours, held by the benchmarks."""
