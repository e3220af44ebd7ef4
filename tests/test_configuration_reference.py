"""The reference of the configuration names every variable and its default."""

import re
from pathlib import Path

from gym_failures import config
from gym_failures.config import Config

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"


def rows():
    """Return the variables and the defaults of the table."""
    return re.findall(r"^\| `GYM_FAILURES_([A-Z_]+)` \| `?([^`|]+?)`? \|", REFERENCE.read_text(), re.MULTILINE)


def test_the_reference_names_every_variable_and_no_other():
    """The table has the variables that are read."""
    assert {name.lower() for name, _ in rows()} == set(config._READERS)


def test_the_reference_tells_the_defaults():
    """Each default of the table is the field's default as it would be written in the environment."""
    for name, default in rows():
        value = getattr(Config(), name.lower())
        assert default == {None: "none", True: "true", False: "false"}.get(value, str(value)), name
