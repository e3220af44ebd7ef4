"""All sides of an environment."""

from collections.abc import Iterator, Mapping

from gym_failures.cli.checkup.destinations import destinations
from gym_failures.cli.checkup.finding import Finding
from gym_failures.cli.checkup.nemo_gym import nemo_gym
from gym_failures.cli.checkup.packages import packages
from gym_failures.cli.checkup.settings import settings


def checkup(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what there is to say of an environment, well or not, in the order in which one would look."""
    yield from packages()
    yield from nemo_gym(environ)
    yield from settings(environ)
    yield from destinations(environ)
