"""NeMo Gym's own servers with 4,000 requests in flight: bare, with OpenTelemetry alone, and under `gym-failures run`.

Real NeMo Gym from the environment that `make gym` makes: its model server, with a provider of models behind it that
answers when all requests have come to it, and the resources server of the tests' bed. The servers of all sides are up
at the same time, and the sides take turns, so that what else the machine does falls on each of them. A round is one
call of every rollout to the model server, all at once, and then one to the resources server. Two processes that do the
same differ by more than what is looked for, as their memory lies, so those that are compared are started anew several
times, for fewer rounds.

What counts is the processor's time of the server's process for a request, exporting included, because the client and
the provider share the machine with the servers. `run` and OpenTelemetry alone send the same spans to the same receiver;
`run, files` is how `gym-failures run` does without an endpoint, and is shown beside them. Exits with status 1 when a
request costs more than the design allows beside OpenTelemetry alone, when the memory of a server grows, or when spans
are missing. Numbers of rollouts, rounds and starts may be given: `bench_gym_load.py 400 3 2`.
"""

import asyncio
import math
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from gym_load_client import ASKED, Provider, ask_at_once, connected, requests
from gym_load_sides import ALONE, BARE, FILES, OURS, SENDING, SIDES, Server, started

from gym_venv import WITH_US, MissingEnvironmentError

ROLLOUTS: Final = 4_000
ROUNDS: Final = 4
"""Rounds of the first start that count; one more before them warms up."""
AGAIN: Final = 5
"""How often the servers that are compared are started anew."""
ROUNDS_AGAIN: Final = 2
"""Rounds of each of those starts, after one that warms up."""
BUDGET: Final = 1.03
FLAT: Final = 1.05
"""Most that the memory of a server may grow from the first round to the last, beside that of a bare one: NeMo Gym's own
grows by as much as a quarter from one round to the next, and shrinks again."""
DESCRIPTORS: Final = 20_000
"""Open files that this process may need: for each rollout one to a server and one from it, and what is closing."""
SPANS: Final = {"model": 2, "resources": 1}
"""Spans of a request to each server: that of the request, and that of the call to the provider."""


class Round(NamedTuple):
    """What a server did in one round."""

    cpu: float
    """Processor's time of its process for a request, in microseconds."""
    rate: float
    """Requests a second."""
    middle: float
    """Time in which half of the requests had their reply, in seconds."""
    late: float
    """The same for 99 of a hundred requests."""
    full: float
    """Resident memory with all requests in flight, in MB."""
    after: float
    """Resident memory after the round, in MB."""


Starts = dict[str, list[list[Round]]]
"""By side, the rounds of each start, in order."""


def main() -> int:
    """Print the tables; return 1 when a promise does not hold."""
    rollouts, rounds, again = map(int, sys.argv[1:4] or (ROLLOUTS, ROUNDS, AGAIN))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS if most == resource.RLIM_INFINITY else most, most))
    try:
        WITH_US.python  # noqa: B018 - raises where it is missing
    except MissingEnvironmentError as missing:
        print(f"load on NeMo Gym left out: {missing}")
        return 0
    found: dict[str, Starts] = {name: {side: [] for side in SIDES} for name in ASKED}
    asyncio.run(measure(found, SIDES, rollouts, rounds))
    for _ in range(again):
        asyncio.run(measure(found, SENDING, rollouts, ROUNDS_AGAIN))
    print(f"{rollouts:,} in flight; load of the machine {os.getloadavg()[0]:.1f}")
    held = [holds for server, sides in found.items() for holds in (*shown(server, sides),)]
    return 0 if all(held) else 1


async def measure(found: Mapping[str, Starts], sides: Sequence[str], rollouts: int, rounds: int) -> None:
    """Start the servers of these sides, and add the rounds of each to what was found of it."""
    for starts in found.values():
        for side in sides:
            starts[side].append([])
    provider = Provider()
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(provider.serving())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        starting = [stack.enter_context(started(side, folder / side, port, rollouts)) for side in sides]
        servers = [await asyncio.to_thread(list, lines) for lines in starting]
        for number in range(rounds + 1):
            for place in range(len(sides)):
                for server in servers[(place + number) % len(sides)]:
                    played = await play(server, provider, rollouts)
                    # A run takes many minutes on a busy machine; one that is stopped has told what it saw.
                    told = f"{played.cpu:.0f} us/request, {played.rate:.0f} req/s, {played.after:.0f} MB"
                    print(f"round {number}, {server.side}, {server.name}: {told}", file=sys.stderr, flush=True)
                    if number:
                        found[server.name][server.side][-1].append(played)


async def play(server: Server, provider: Provider, rollouts: int) -> Round:
    """Have so many rollouts call a server at once, and wait until their spans have come."""
    full = 0.0

    def look() -> None:
        nonlocal full
        full = server.memory()

    if server.name == "model":
        provider.hold(rollouts, look)
    asked = list(requests(server.name, rollouts))
    side = SIDES.index(server.side)
    spans = provider.spans[side] + rollouts * SPANS[server.name]
    async with connected(server.port, rollouts) as connections:
        begun, cpu = asyncio.get_running_loop().time(), server.cpu()
        took = sorted(await ask_at_once(connections, asked))
        seconds = asyncio.get_running_loop().time() - begun
    if server.side in SENDING:
        await provider.has_received(side, spans)
    return Round(
        cpu=(server.cpu() - cpu) / rollouts * 1e6,
        rate=rollouts / seconds,
        middle=took[len(took) // 2],
        late=took[len(took) * 99 // 100],
        full=full or math.nan,
        after=server.memory(),
    )


def shown(server: str, sides: Starts) -> Iterator[bool]:
    """Print the table of one server, and yield whether each promise holds."""
    print(
        f"\n{f'{server} server':<17}{'us/request':>10}{'ratio':>8}{'':>7}{'req/s':>8}{'p50 s':>8}{'p99 s':>8}"
        f"{'MB full':>9}   ratio of each start; MB after each round of the first"
    )
    for side, starts in sides.items():
        rounds = [one for start in starts for one in start]
        cpu, rate, middle, late, full, _ = (statistics.median(values) for values in zip(*rounds, strict=True))
        ratios = compared(sides[ALONE], starts)
        print(
            f"{side:<17}{cpu:>10.0f}{statistics.mean(ratios):>8.3f} ±{_error(ratios):.3f}{rate:>8.0f}{middle:>8.2f}"
            f"{late:>8.2f}{full:>9.0f}   "
            + " ".join(f"{one:.3f}" for one in ratios)
            + "; "
            + " ".join(f"{one.after:.0f}" for one in starts[0])
        )
    ratio = statistics.mean(compared(sides[ALONE], sides[OURS]))
    yield verdict(f"{OURS} beside {ALONE}: {ratio:.3f} <= {BUDGET}", holds=ratio <= BUDGET)
    most = FLAT * max(1.0, grown(sides[BARE]))
    for side in (OURS, FILES):
        found = grown(sides[side])
        yield verdict(
            f"{side}, memory after the last round and the first: {found:.3f} <= {most:.3f}", holds=found <= most
        )


def grown(starts: Sequence[Sequence[Round]]) -> float:
    """Return how many times as much memory a server has after the last round of the first start as after its first."""
    return starts[0][-1].after / starts[0][0].after


def compared(alone: Sequence[Sequence[Round]], other: Sequence[Sequence[Round]]) -> list[float]:
    """Return how many times as much of the processor a request takes, for each start that the other side has too."""
    return [
        statistics.median(one.cpu / two.cpu for one, two in zip(*starts, strict=True))
        for starts in zip(other, alone, strict=False)
    ]


def _error(ratios: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan


def verdict(promise: str, *, holds: bool) -> bool:
    """Print whether a promise holds, and return it."""
    print(f"{promise:<78}{'holds' if holds else 'MISSED'}")
    return holds


if __name__ == "__main__":
    sys.exit(main())
