"""What is known of a NeMo Gym without one: hooks that wait for their module, and what names of it mean."""

import asyncio
import importlib
import importlib.util
import logging
import re
import subprocess
import sys
from pathlib import Path
from string import ascii_letters
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st

from gym_failures import limits, waiting
from gym_failures.config import Config
from gym_failures.guard import _said
from gym_failures.instrumentation import nemo_gym
from gym_failures.instrumentation.nemo_gym import identity, peers, servers
from gym_failures.instrumentation.nemo_gym.hooks import Hook, Hooks
from tests.servers.asgi import Call

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "nemo-gym-hooks.md"

# --- Hooks. -----------------------------------------------------------------------------------------------------------

HOST = """
def greet(): return "hello"
class Server:
    def name(self): return "server"
"""
GROUPS = {
    "first": 'HOOKS = {"host": (Hook("greet", loud), Hook("Server.name", loud), Hook("no_such", loud))}',
    "second": 'HOOKS = {"host": (Hook("Nowhere.name", loud), Hook("greet", loud))}',
    "broken": "raise ImportError('not here')",
}
LOUD = """
import functools
from gym_failures.instrumentation.nemo_gym.hooks import Hook
def loud(function):
    @functools.wraps(function)
    def louder(*args):
        return function(*args).upper() + "!"
    return louder
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Give a package with groups of hooks for a module `host`; neither is imported yet, nor will be left."""
    (tmp_path / "host.py").write_text(HOST)
    (tmp_path / "hooked").mkdir()
    for name, hooks in GROUPS.items():
        (tmp_path / "hooked" / f"{name}.py").write_text(f"{LOUD}\n{hooks}\n")
    monkeypatch.syspath_prepend(tmp_path)
    _said.clear()
    yield "hooked"
    for name in [name for name in sys.modules if name.partition(".")[0] in {"host", "hooked"}]:
        del sys.modules[name]


def test_a_module_is_hooked_when_it_is_imported(package):
    """Nothing is imported for the sake of hooks, neither their module nor theirs, and whoever imports it gets them."""
    hooks = Hooks(package, {"host": ("first",)})
    hooks.install()
    assert not {"host", "hooked"} & sys.modules.keys()
    host = importlib.import_module("host")
    assert (host.greet(), host.Server().name()) == ("HELLO!", "SERVER!")
    hooks.uninstall()


def test_a_module_that_is_imported_already_is_hooked_at_once(package):
    """It makes no difference to what a module is asked for whether it was imported before."""
    host = importlib.import_module("host")
    hooks = Hooks(package, {"host": ("first",)})
    hooks.install()
    assert (host.greet(), host.Server().name()) == ("HELLO!", "SERVER!")
    hooks.uninstall()


def test_a_second_install_does_nothing(package):
    """A start-up hook may run twice in a process (NVIDIA-NeMo/Gym#316): each function is wrapped once."""
    hooks = Hooks(package, {"host": ("first",)})
    hooks.install()
    host = importlib.import_module("host")
    hooks.install()
    assert host.greet() == "HELLO!"
    hooks.uninstall()


def test_uninstall_puts_everything_back(package):
    """After it functions are the module's own, a later import is left alone, and all can be installed again."""
    hooks = Hooks(package, {"host": ("first", "second")})
    host = importlib.import_module("host")
    own = (host.greet, host.Server.name)
    for _ in range(2):
        hooks.install()
        assert host.greet() == "HELLO!!"
        hooks.uninstall()
        assert (host.greet, host.Server.name) == own
    late = Hooks(package, {"hooked.second": ("first",)})
    late.install()
    late.uninstall()
    importlib.import_module("hooked.second")
    assert late._undo == {}


def test_each_hook_degrades_alone(package, caplog):
    """What is missing, a function, a class or a whole group, is said once and costs nothing else."""
    hooks = Hooks(package, {"host": ("broken", "first", "second")})
    with caplog.at_level(logging.WARNING, logger="gym_failures"):
        hooks.install()
        host = importlib.import_module("host")
        hooks.uninstall()
        hooks.install()
        assert (host.greet(), host.Server().name()) == ("HELLO!!", "SERVER!")
    hooks.uninstall()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert "internal error in nemo_gym (ImportError)" in said[0]
    assert "no_such" in said[1]
    assert "host has no Nowhere" in said[2]


def test_nothing_is_imported_to_wait():
    """Neither NeMo Gym, nor a framework, nor pydantic is imported in a process that has no use for them."""
    program = (
        "import sys; from gym_failures.instrumentation import nemo_gym; nemo_gym.install(); "
        "print([name for name in ('nemo_gym', 'aiohttp', 'fastapi', 'starlette', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def hooked():
    """Return every place that is hooked, by module, from the modules that hold the hooks."""
    places = {}
    for module, groups in nemo_gym._GROUPS.items():
        for group in groups:
            hooks = importlib.import_module(f"{nemo_gym.__name__}.{group}").HOOKS[module]
            places.setdefault(module, []).extend(hook._place for hook in hooks)
    return places


def test_every_hook_is_waited_for():
    """Each module for which a group has hooks is one that is waited for, with that group."""
    for group in {group for groups in nemo_gym._GROUPS.values() for group in groups}:
        modules = importlib.import_module(f"{nemo_gym.__name__}.{group}").HOOKS
        assert all(isinstance(hook, Hook) for hooks in modules.values() for hook in hooks)
        assert set(modules) == {module for module, groups in nemo_gym._GROUPS.items() if group in groups}


def test_the_reference_names_every_hook():
    """The table of what each hook gives has those that there are, and no other."""
    rows = re.findall(r"^\| `([\w.]+)`: `([\w.]+)` \|", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((module, place) for module, places in hooked().items() for place in places)


def test_the_hosts_that_its_client_calls_are_believed():
    """NeMo Gym's client gets the same URL, and its host is believed from then on; what is no URL costs nothing."""

    class ServerClient:
        def _build_server_base_url(self, part):
            return part

    (hook,) = peers.HOOKS["nemo_gym.server_utils"]
    undo = hook.apply(SimpleNamespace(ServerClient=ServerClient))
    for url in ("http://peer-of-a-test:8000", None):
        assert ServerClient()._build_server_base_url(url) is url
    undo()
    assert Config().accepts("http://peer-of-a-test:8000/run")


# --- Names of NeMo Gym. -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "rollout_id", "rest"),
    [
        ("/verify", None, "/verify"),
        ("/ng-rollout/0-1/verify", "0-1", "/verify"),
        ("/ng-rollout/0-1-a2/v1/responses", "0-1-a2", "/v1/responses"),
        ("/ng-rollout/a.b_c-d/training-token-capture/v1/responses", "a.b_c-d", "/v1/responses"),
        ("/ng-rollout/0-1/", "0-1", "/"),
        ("/ng-rollout/0-1", None, "/ng-rollout/0-1"),
        ("/ng-rollout//verify", None, "/ng-rollout//verify"),
        ("/ng-rollout/.hidden/verify", None, "/ng-rollout/.hidden/verify"),
        ("/ng-rollout/a%20b/verify", None, "/ng-rollout/a%20b/verify"),
        ("/x/ng-rollout/0-1/verify", None, "/x/ng-rollout/0-1/verify"),
        ("", None, ""),
    ],
)
def test_the_rollout_of_a_path(path, rollout_id, rest):
    """A path that begins as NeMo Gym's own names its rollout, and no other does."""
    assert identity.split_path(path) == (rollout_id, rest)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_path_can_be_split(before, after):
    """Whatever a client asks for, splitting its path loses nothing and invents nothing."""
    path = f"/ng-rollout/{before}/{after}"
    rollout_id, rest = identity.split_path(path)
    prefix = f"/ng-rollout/{rollout_id}" if rollout_id else ""
    assert path.startswith(prefix)
    assert path.removeprefix(prefix).removeprefix("/training-token-capture") == rest or path == rest


ID, TASK, ROLLOUT, ATTEMPT = (
    "nemo.gym.rollout.id",
    "nemo.gym.task_index",
    "nemo.gym.rollout_index",
    "nemo.gym.attempt_index",
)


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        ({"_ng_task_index": 3, "_ng_rollout_index": 0}, {ID: "3-0", TASK: 3, ROLLOUT: 0}),
        (
            {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 2},
            {ID: "3-1-a2", TASK: 3, ROLLOUT: 1, ATTEMPT: 2},
        ),
        (
            {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 0},
            {ID: "3-1", TASK: 3, ROLLOUT: 1, ATTEMPT: 0},
        ),
        ({"_ng_rollout_id": "mine", "_ng_attempt_index": 1}, {ID: "mine-a1", ATTEMPT: 1}),
        (SimpleNamespace(capture_rollout_id="mine", _ng_task_index=1), {ID: "mine", TASK: 1}),
        ({"episode_id": {"rollout_id": "3-1", "attempt": 2}, "task": {}}, {ID: "3-1-a2", ATTEMPT: 2}),
        (SimpleNamespace(episode_id=SimpleNamespace(rollout_id="3-1", attempt=0)), {ID: "3-1", ATTEMPT: 0}),
        ({"_ng_task_index": 3}, {TASK: 3}),
        (
            {"_ng_task_index": 2**63 - 1, "_ng_rollout_index": -(2**63)},
            {ID: f"{2**63 - 1}-{-(2**63)}", TASK: 2**63 - 1, ROLLOUT: -(2**63)},
        ),
        ({"_ng_task_index": 2**63, "_ng_rollout_index": 0, "_ng_attempt_index": 10**5_000}, {ROLLOUT: 0}),
        ({"episode_id": {"rollout_id": "3-1", "attempt": -(2**63) - 1}}, {ID: "3-1"}),
        ({"_ng_rollout_id": "a\ud800"}, {ID: "a\ufffd"}),
        ({"_ng_task_index": "3", "_ng_rollout_index": None}, {}),
        ({}, {}),
        (None, {}),
        ("text", {}),
    ],
)
def test_the_rollout_of_a_run(body, attributes):
    """The body of a run names its rollout as NeMo Gym makes the id: by indices, by name, with the attempt after it."""
    assert identity.of_run(body) == attributes


@given(st.text(ascii_letters, min_size=1, max_size=300), st.integers(1, 9))
@example("r" * 1_000_000, 1)
def test_a_long_id_of_a_rollout(rollout_id, attempt):
    """An id of any length is bounded, in the same way in a path, in the body of a run and in a row, and kept apart."""
    row = {"_ng_rollout_id": rollout_id, "_ng_attempt_index": attempt}
    found, _ = identity.split_path(f"/ng-rollout/{rollout_id}-a{attempt}/verify")
    assert identity.of_run(row)[ID] == found
    assert len(found) <= limits.WIRE_ID_LENGTH
    assert identity.of_run({**row, "_ng_attempt_index": attempt + 1})[ID] != found


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("/seed_session", "seed"),
        ("/run", "agent"),
        ("/v1/responses", "agent"),
        ("/ng-rollout/0-1/v1/chat/completions", "agent"),
        ("/ng-rollout/0-1/verify", "verification"),
        ("/close_session", "cleanup"),
        ("/v1/agent_sessions", "agent"),
        ("/v1/agent_sessions/close", "cleanup"),
        ("/get_weather", None),
        ("/aggregate_metrics", None),
    ],
)
def test_the_stage_of_a_request(path, stage):
    """The path of a request tells the stage of the episode, with a rollout's prefix too; a tool's tells none."""
    found = servers.stage_of({"path": path})
    assert (None if found is None else found.value) == stage


NAMED = {
    "behind a rollout's id": ("/ng-rollout/3-1/tools/x", "GET", None, "GET /tools/{name}", "/tools/{name}"),
    "a path that there is not": ("/ng-rollout/3-1/nowhere", "GET", None, "GET", None),
    "another method": ("/ng-rollout/3-1/other", "GET", None, "GET", None),
    "without a rollout's id": ("/tools/x", "GET", None, "GET", None),
    "a route that is known": ("/ng-rollout/3-1/tools/x", "GET", "/known", "GET", "/known"),
    "a name of the program's own": ("/ng-rollout/3-1/tools/x", "mine", None, "mine", None),
}


@pytest.mark.parametrize("case", NAMED)
def test_the_route_behind_a_rollouts_id(telemetry, case):
    """A request's span whose instrumentation found no route gets that of the path without the id; any other stays."""
    path, name, known, expected, route = NAMED[case]
    app = FastAPI()

    @app.post("/other")
    @app.get("/tools/{name}")
    async def handle():
        return {}

    servers._instrument(type("SimpleResourcesServer", (), {})(), app)
    with telemetry.span(name) as span:
        if known:
            span.set_attribute("http.route", known)
        asyncio.run(Call(app, path=path).run())
    finished = telemetry.spans()[-1]
    assert (finished.name, finished.attributes.get("http.route")) == (expected, route)


def test_an_app_in_an_app_is_watched_once(telemetry):
    """A request to a server's app that is mounted in another one's is watched as long as it lasts, and no longer."""
    server = type("SimpleResourcesServer", (), {})()
    outer, inner = FastAPI(), FastAPI()
    watched = []

    @inner.get("/x")
    async def handle():
        watched.append(len(waiting._watches[asyncio.get_running_loop()]._young))

    for app in (outer, inner):
        servers._instrument(server, app)
    outer.mount("/sub", inner)

    async def main():
        await Call(outer, path="/sub/x").run()
        watched.append(len(waiting._watches[asyncio.get_running_loop()]._young))

    asyncio.run(main())
    assert watched == [1, 0]


@pytest.mark.parametrize(
    ("base", "boundary"),
    [
        ("SimpleResourcesServer", "resources_server"),
        ("SimpleResponsesAPIAgent", "agent"),
        ("SimpleResponsesAPIModel", "model"),
        ("BaseEnvironmentServer", "environment"),
        ("SimpleServer", None),
    ],
)
def test_the_boundary_of_a_server(base, boundary):
    """A server observes at the boundary of the base class that it derives from, at whatever distance."""
    derived = type("Mine", (type("Between", (type(base, (), {}),), {}),), {})
    found = servers.boundary_of(derived)
    assert (None if found is None else found.value) == boundary
