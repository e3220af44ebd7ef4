"""A method wrapped beneath the wrappers of others, and put back whatever has happened to it since."""

import functools
import logging

import pytest
from wrapt import wrap_function_wrapper

from gym_failures.patching import wrap_method


class Greeter:
    """Someone else's class."""

    def greet(self) -> list[str]:
        """Say who is called, the last one first."""
        return ["method"]


@pytest.fixture(autouse=True)
def greeter():
    """Give back the method as it was."""
    before = Greeter.__dict__["greet"]
    yield
    Greeter.greet = before


def ours(method):
    """Wrap a method as our adapters do."""

    @functools.wraps(method)
    def wrapper(self):
        return ["ours", *method(self)]

    return wrapper


def wrap_theirs():
    """Wrap the method as OpenTelemetry's instrumentations do."""
    wrap_function_wrapper(Greeter, "greet", lambda wrapped, _, args, kwargs: ["theirs", *wrapped(*args, **kwargs)])


def unwrap_theirs():
    """Take away the outermost wrapper, as OpenTelemetry's instrumentations do."""
    Greeter.greet = Greeter.greet.__wrapped__


def test_alone():
    """Without others the wrapper stands in the method's place, and goes."""
    method = Greeter.__dict__["greet"]
    undo = wrap_method(Greeter, "greet", ours)
    assert Greeter().greet() == ["ours", "method"]
    undo()
    assert Greeter.__dict__["greet"] is method


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_ours_is_beneath(first):
    """Ours is beneath theirs, whoever came first: beneath, their span is current."""
    if first == "ours":
        undo = wrap_method(Greeter, "greet", ours)
        wrap_theirs()
    else:
        wrap_theirs()
        undo = wrap_method(Greeter, "greet", ours)
    assert Greeter().greet() == ["theirs", "ours", "method"]
    undo()
    assert Greeter().greet() == ["theirs", "method"]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_theirs_goes_first(first):
    """What they take away is their own wrapper, and ours stays."""
    method = Greeter.__dict__["greet"]
    if first == "theirs":
        wrap_theirs()
    undo = wrap_method(Greeter, "greet", ours)
    if first == "ours":
        wrap_theirs()
    unwrap_theirs()
    assert Greeter().greet() == ["ours", "method"]
    undo()
    assert Greeter.__dict__["greet"] is method


def test_beneath_several():
    """Ours is beneath all of theirs, and each of them stays."""
    wrap_theirs()
    wrap_theirs()
    undo = wrap_method(Greeter, "greet", ours)
    assert Greeter().greet() == ["theirs", "theirs", "ours", "method"]
    undo()
    assert Greeter().greet() == ["theirs", "theirs", "method"]


def test_a_wrapper_of_another_kind_is_left_alone():
    """Round a function that nobody can look into, ours goes; what someone put round ours keeps it."""
    undo = wrap_method(Greeter, "greet", ours)
    inner = Greeter.greet
    Greeter.greet = lambda self: ["closed", *inner(self)]
    undo()
    assert Greeter().greet() == ["closed", "ours", "method"]
    wrap_method(Greeter, "greet", ours)
    assert Greeter().greet() == ["ours", "closed", "ours", "method"]


def test_undoing_twice():
    """What was undone stays undone, and disturbs nobody who came after."""
    undo = wrap_method(Greeter, "greet", ours)
    undo()
    wrap_method(Greeter, "greet", ours)
    undo()
    assert Greeter().greet() == ["ours", "method"]


def test_a_method_that_is_not_there(caplog):
    """A version without the method is said once, and all else goes on."""
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            wrap_method(Greeter, "wave", ours)()
    assert [record.getMessage() for record in caplog.records] == [
        f"{Greeter} has no wave; what shows there is not seen"
    ]
    assert not hasattr(Greeter, "wave")
