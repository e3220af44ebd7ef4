"""Show what a report's header costs beside JSON, zlib and base64 alone, and that no input takes long.

Encodes and decodes reports of 8 events beside that floor on the same bytes, then refuses and reads the slowest inputs
that are known. Prints both tables and exits with 1 when a budget is missed. Run it as a script.
"""

import base64
import gc
import json
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping

from bench_records import build

from gym_failures import limits, packing
from gym_failures.header import decode_report, encode_report
from gym_failures.records import FailureEvent, FailureReport

EVENTS = 8
WITHIN = 3.0
ROUNDS = 60
RUNS = 40
SETS = 5
SET_SIZE = 20

PLAIN = '{"failure_kind":"k","boundary":"agent"}'
MODEL = (
    '{"failure_kind":"k","boundary":"model","details":{},"foreign_error":{"exception_type":"x","message":"y"},"new":1}'
)
WRONG = '{"failure_kind":"k","boundary":"agent","stage":1,"http_status":1,"operation":[],"attempt_id":{}}'


def seconds(run: Callable[[], object], runs: int) -> float:
    """Return the processor time of one run: what else the machine does is not ours to count."""
    start = time.process_time()
    for _ in range(runs):
        run()
    return (time.process_time() - start) / runs


def in_turns(*sides: Callable[[], object]) -> list[float]:
    """Return each side's median time in microseconds; they take turns, so that a busy moment hits all alike."""
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for run, times in zip(sides, samples, strict=True):
            times.append(seconds(run, RUNS) * 1e6)
    return [statistics.median(times) for times in samples]


def small() -> FailureReport:
    """Return a chain of events that say the least, where what is not the floor's weighs most."""
    report = build(EVENTS)
    events = {
        event_id: FailureEvent(
            event_id=event_id, boundary=event.boundary, failure_kind=event.failure_kind, cause_id=event.cause_id
        )
        for event_id, event in report.events.items()
    }
    return FailureReport(events=events, failure_id=report.failure_id)


def ratios() -> Iterator[bool]:
    """Print encoding and decoding beside their floor, and yield whether each is within the budget."""
    print(
        f"{f'{EVENTS} events, microseconds':<30}{'JSON bytes':>12}{'header':>10}{'floor':>10}{'ratio':>8}{'budget':>8}"
    )
    for name, report in (("rich", build(EVENTS)), ("bare", small())):
        value = encode_report(report, budget=limits.HEADER_HARD_LIMIT)
        assert decode_report(value) == report  # noqa: S101 - nothing is cut, so both sides have the same bytes
        body = packing.unpack(value)
        tree = json.loads(body)

        def floor_of_encoding(tree: object = tree) -> bytes:
            text = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
            return base64.urlsafe_b64encode(zlib.compress(text))

        def floor_of_decoding(packed: bytes = floor_of_encoding()) -> object:
            return json.loads(zlib.decompress(base64.urlsafe_b64decode(packed)))

        def encode(report: FailureReport = report) -> str:
            return encode_report(report, budget=limits.HEADER_HARD_LIMIT)

        def decode(value: str = value) -> object:
            return decode_report(value)

        for step, ours, floor in (("encode", encode, floor_of_encoding), ("decode", decode, floor_of_decoding)):
            taken, least = in_turns(ours, floor)
            row = f"{f'{step}, {name}':<30}{len(body):>12,}{taken:>10.1f}{least:>10.1f}"
            print(f"{row}{taken / least:>8.2f}{WITHIN:>8.1f}")
            yield taken <= WITHIN * least


def packed(body: str | bytes) -> str:
    """Return the header value that carries `body`."""
    text = body if isinstance(body, bytes) else body.encode()
    return f"1.{base64.urlsafe_b64encode(zlib.compress(text, 9)).rstrip(b'=').decode()}"


def filled(unit: str, before: str = "", after: str = "") -> str:
    """Return the value of as many units as fit into the largest report that is read."""
    room = limits.DECODE_INFLATED - len(before) - len(after)
    return packed(before + unit * (room // len(unit.encode())) + after)


def numbered(event: str, count: int = limits.DECODE_EVENTS) -> str:
    """Return the JSON of a report of `count` such events."""
    return '{"events":{' + ",".join(f'"{number:x}":{event}' for number in range(count)) + "}}"


def to_refuse() -> dict[str, object]:
    """Return what costs most to refuse."""
    return {
        "a megabyte of text": "1." + "x" * 1_000_000,
        "a megabyte of bytes": b"1." + b"x" * 1_000_000,
        "as much as may come, no zlib": "1." + "A" * (limits.DECODE_LENGTH - 2),
        "nothing but commas": "," * 8_000,
        "bomb": packed(b" " * 5_000_000),
        "lists, one in the other": filled("["),
        "objects, one in the other": filled('{"a":'),
        "lists, opened and closed": packed("[" * 30_000 + "]" * 30_000),
        "lists beside each other": filled("[],", '{"events":[', "[]]}"),
        "lists, as many as may be": packed('{"events":[' + "[]," * (limits.DECODE_OBJECTS - 3) + "1]}"),
        "objects, as many as may be": packed('{"events":[' + '{"a":1},' * (limits.DECODE_OBJECTS - 3) + "1]}"),
        "numbers, as many as may be": packed('{"events":[' + "1.5," * (limits.DECODE_MEMBERS - 2) + "1]}"),
        "numbers, then NaN": packed('{"events":[' + "1.5," * (limits.DECODE_MEMBERS - 2) + "NaN]}"),
        "huge numbers": packed('{"events":[' + ",".join(["9" * 4_000] * 16) + "]}"),
        "texts beside each other": filled('"",', '{"events":[', '""]}'),
        "quotes": filled('"'),
        "backslashes": filled("\\", '"', '"'),
        "escaped quotes": filled('\\"', '"', '"'),
        "escapes": filled("\\u00e9", '{"events":"', '"}'),
        "surrogates": filled("\\ud800", '{"events":"', '"}'),
        "an event too many": packed(numbered(PLAIN, limits.DECODE_EVENTS + 1)),
        "events, then a fault": packed(numbered(PLAIN)[:-1] + ',"x":'),
        "exactly, then a fault": packed(numbered(PLAIN, 150)[:-1] + ',"x":'),
        "8 KiB of lists": packed('{"events":[' + "[]," * 2_000 + "[]]}"),
        "8 KiB of numbers": packed('{"events":[' + "1," * 4_000 + "1]}"),
    }


def to_read() -> dict[str, object]:
    """Return what costs most to read."""
    links = ",".join(
        f'"{number}":{PLAIN[:-1]},"cause_id":"{(number + 1) % limits.DECODE_EVENTS}"}}'
        for number in range(limits.DECODE_EVENTS)
    )
    return {
        "plain events": packed(numbered(PLAIN)),
        "events with all parts": packed(numbered(MODEL)),
        "events with wrong fields": packed(numbered(WRONG)),
        "one circle": packed(f'{{"events":{{{links}}}}}'),
        "links to nowhere": packed(numbered(PLAIN[:-1] + ',"cause_id":"gone"}')),
        "long texts": packed(numbered(f'{PLAIN[:-1]},"failure_reason":"{"模" * 2_100}"}}', 10)),
        "unknown numbers": packed('{"events":{},"new":[' + "1.5," * (limits.DECODE_MEMBERS - 2) + "1]}"),
        "several values": ",".join([packed(numbered(MODEL, limits.DECODE_EVENTS // 4))] * 4),
        "a report of many": encode_report(build(100), budget=limits.HEADER_HARD_LIMIT),
    }


def maximum(value: object) -> float:
    """Return the longest time in milliseconds that decoding `value` took in the quietest of some sets of runs."""
    return min(max(seconds(lambda: decode_report(value), 1) for _ in range(SET_SIZE)) for _ in range(SETS)) * 1e3


def maxima(title: str, values: Mapping[str, object], budget: float, *, read: bool) -> bool:
    """Print the slowest of `values`, and return whether all are within the budget in seconds."""
    times = {name: maximum(value) for name, value in values.items()}
    for name, value in values.items():
        assert (decode_report(value) is not None) is read, name  # noqa: S101 - otherwise the wrong thing is measured
    slowest = sorted(times, key=times.__getitem__, reverse=True)
    print(f"\n{f'{title}: the slowest of {len(times)}, milliseconds':<50}{'maximum':>10}{'budget':>8}")
    for name in slowest[:5]:
        print(f"{name:<50}{times[name]:>10.3f}{budget * 1e3:>8.1f}")
    return times[slowest[0]] <= budget * 1e3


def main() -> int:
    """Print the tables; return 1 when a budget is missed."""
    refused, accepted = to_refuse(), to_read()
    # The garbage collector stays on, as it is for users, but does not go through this program's own inputs each time.
    gc.collect()
    gc.freeze()
    kept = [
        *ratios(),
        maxima("refused", refused, limits.DECODE_REJECT_SECONDS, read=False),
        maxima("read", accepted, limits.DECODE_ACCEPT_SECONDS, read=True),
    ]
    if not all(kept):
        print("\na budget is missed")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
