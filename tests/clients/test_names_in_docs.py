"""The names of the package that its pages tell a user to import."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from gym_failures import instrumentation

ROOT = Path(__file__).parents[2]
# What was chosen and why may speak of what is gone.
PAGES = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions")]
IMPORTED = re.compile(r"^ *from (gym_failures[\w.]*) import (.+)$|^ *import (gym_failures[\w.]*)$", re.MULTILINE)
QUOTED = re.compile(r"`(gym_failures(?:\.\w+)+)(?:\([^`]*\))?`")
LOGGERS = {"gym_failures.failures"}


def names():
    """Return every dotted name of the package that stands on a page, in an import or in backticks."""
    found = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found.update(QUOTED.findall(text))
        for module, of_it, whole in IMPORTED.findall(text):
            found.update([whole] if whole else [f"{module}.{name.strip()}" for name in of_it.split(",")])
    return sorted(found - LOGGERS)


def resolved(name):
    """Return what a dotted name stands for; an AttributeError or ImportError says that there is no such thing."""
    value = import_module("gym_failures")
    for part in name.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            value = import_module(f"{value.__name__}.{part}")
    return value


def test_names_are_found():
    """Names are found in imports of both forms and in backticks, so that the test below can fail."""
    assert {"gym_failures", "gym_failures.rows.read_row", "gym_failures.instrumentation.instrument_session"} <= set(
        names()
    )


@pytest.mark.parametrize("name", names())
def test_a_name_on_a_page_exists(name):
    """What a page says to import can be imported from there."""
    assert resolved(name) is not None


@pytest.mark.parametrize("name", names())
def test_a_name_on_a_page_is_in_the_reference_of_the_api(name):
    """Each module that a page says to import from has its section on the page about the API."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    sections = {"gym_failures", *re.findall(r"^## (\S+)$", page, re.MULTILINE)}
    assert name in sections or name.rpartition(".")[0] in sections


def test_every_public_name_of_instrumentation_has_a_home():
    """The table of lazy names of `instrumentation` and its `__all__` list the same names."""
    assert sorted(instrumentation._HOME) == sorted(instrumentation.__all__)


@pytest.mark.parametrize(("name", "module"), sorted(instrumentation._HOME.items()))
def test_a_lazy_name_is_its_module_s_own(name, module):
    """A name of `instrumentation` is the very object of the module that it is brought from."""
    assert getattr(instrumentation, name) is getattr(import_module(module), name)
