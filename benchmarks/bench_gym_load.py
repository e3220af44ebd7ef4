"""NeMo Gym's own servers with 4,000 requests in flight: bare, with OpenTelemetry alone, and under `gym-failures run`.

Real NeMo Gym from the environment that `make gym` makes: its model server, with a provider of models behind it that
answers when all requests have come to it, and the resources server of the tests' bed. The servers of all sides are up
at the same time, and the sides take turns, so that what else the machine does falls on each of them. A round is one
call of every rollout to the model server, all at once, and then one to the resources server.

What counts is the processor's time of the server's process for a request, exporting included, because the client and
the provider share the machine with the servers. `run` and OpenTelemetry alone send the same spans to the same receiver;
`run, files` is how `gym-failures run` does without an endpoint, and is shown beside them. Exits with status 1 when a
request costs more than the design allows beside OpenTelemetry alone, when the memory of a server grows, or when spans
are missing. Numbers of rollouts and rounds may be given: `bench_gym_load.py 400 3`.
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
from gym_load_sides import ALONE, FILES, OURS, SENDING, SIDES, Server, started

from gym_venv import WITH_US, MissingEnvironmentError

ROLLOUTS: Final = 4_000
ROUNDS: Final = 6
"""Rounds that count; one more before them warms up."""
BUDGET: Final = 1.03
FLAT: Final = 1.05
"""Most that the memory of a server may grow from the first round to the last."""
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


Rounds = dict[str, list[Round]]
"""By side, in order."""


def main() -> int:
    """Print the tables; return 1 when a promise does not hold."""
    rollouts, rounds = map(int, sys.argv[1:3] or (ROLLOUTS, ROUNDS))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS if most == resource.RLIM_INFINITY else most, most))
    try:
        WITH_US.python  # noqa: B018 - raises where it is missing
    except MissingEnvironmentError as missing:
        print(f"load on NeMo Gym left out: {missing}")
        return 0
    found = asyncio.run(measure(rollouts, rounds))
    print(f"{rollouts:,} in flight; load of the machine {os.getloadavg()[0]:.1f}")
    held = [holds for server, sides in found.items() for holds in (*shown(server, sides),)]
    return 0 if all(held) else 1


async def measure(rollouts: int, rounds: int) -> Mapping[str, Rounds]:
    """Return the rounds of each server, by its name."""
    found: dict[str, Rounds] = {name: {side: [] for side in SIDES} for name in ASKED}
    provider = Provider()
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(provider.serving())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        starting = [stack.enter_context(started(side, folder / side, port, rollouts)) for side in SIDES]
        servers = [await asyncio.to_thread(list, one) for one in starting]
        for number in range(rounds + 1):
            for place in range(len(SIDES)):
                for server in servers[(place + number) % len(SIDES)]:
                    one = await play(server, provider, rollouts)
                    # A run takes many minutes on a busy machine; one that is stopped has told what it saw.
                    told = f"{one.cpu:.0f} us/request, {one.rate:.0f} req/s, {one.after:.0f} MB"
                    print(f"round {number}, {server.side}, {server.name}: {told}", file=sys.stderr, flush=True)
                    if number:
                        found[server.name][server.side].append(one)
    return found


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


def shown(server: str, sides: Rounds) -> Iterator[bool]:
    """Print the table of one server, and yield whether each promise holds."""
    print(
        f"\n{f'{server} server':<17}{'us/request':>10}{'ratio':>8}{'':>7}{'req/s':>8}{'p50 s':>8}{'p99 s':>8}"
        f"{'MB full':>9}   MB after each round"
    )
    for side, rounds in sides.items():
        cpu, rate, middle, late, full, _ = (statistics.median(values) for values in zip(*rounds, strict=True))
        ratio, error = compared(sides[ALONE], rounds)
        print(
            f"{side:<17}{cpu:>10.0f}{ratio:>8.3f} ±{error:.3f}{rate:>8.0f}{middle:>8.2f}{late:>8.2f}{full:>9.0f}   "
            + " ".join(f"{one.after:.0f}" for one in rounds)
        )
    ratio, _ = compared(sides[ALONE], sides[OURS])
    yield verdict(f"{OURS} beside {ALONE}: {ratio:.3f} <= {BUDGET}", holds=ratio <= BUDGET)
    for side in (OURS, FILES):
        grown = sides[side][-1].after / sides[side][0].after
        yield verdict(f"{side}, memory after the last round and the first: {grown:.3f} <= {FLAT}", holds=grown <= FLAT)


def compared(alone: Sequence[Round], other: Sequence[Round]) -> tuple[float, float]:
    """Return how many times as much of the processor a request takes, and the standard error among the rounds."""
    ratios = [one.cpu / two.cpu for one, two in zip(other, alone, strict=True)]
    return statistics.median(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))


def verdict(promise: str, *, holds: bool) -> bool:
    """Print whether a promise holds, and return it."""
    print(f"{promise:<78}{'holds' if holds else 'MISSED'}")
    return holds


if __name__ == "__main__":
    sys.exit(main())
