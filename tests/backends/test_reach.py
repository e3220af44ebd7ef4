"""Who can reach the programs as they are shipped, and what they may do on the machine that runs them."""

import re

import pytest
import yaml

from backends.programs import CONFIG

FILES = ("agent.yaml", "gateway.yaml", "jaeger.yaml")
"""What may run on one machine at one time; all-in-one.yaml is a gateway that listens where an agent does."""
LISTENS = re.compile(r"\$\{env:GYM_(?:COLLECTOR|JAEGER)_(?:GRPC|HTTP|HEALTH|QUERY|QUERY_GRPC|METRICS):-([^}]*)\}")
TELLS = re.compile(r"host: \$\{env:\w+:-([^}]*)\}\s+port: \$\{env:\w+:-(\d+)\}")
SERVICES = yaml.safe_load((CONFIG / "compose.yaml").read_text())["services"]
ONE_SHOT = "ownership"
"""The one service that is root: it hands over volumes, with the right to do that and no other."""


def addresses(file):
    """Return where the program of a file listens when no variable is set, as host and port."""
    text = (CONFIG / file).read_text()
    return [tuple(address.rsplit(":", 1)) for address in LISTENS.findall(text)] + TELLS.findall(text)


@pytest.mark.parametrize("file", [*FILES, "all-in-one.yaml"])
def test_a_program_listens_on_its_own_machine_only(file):
    """With no variable set nothing is reached from outside: other hosts are let in by who says so, with TLS."""
    assert {host for host, _ in addresses(file)} == {"127.0.0.1"}


@pytest.mark.parametrize("files", [FILES, ("all-in-one.yaml", "jaeger.yaml")], ids=" and ".join)
def test_no_two_programs_want_one_port(files):
    """Agent, gateway, Jaeger and Prometheus start beside each other on one machine as they are."""
    ports = [port for file in files for _, port in addresses(file)] + ["9090"]
    assert len(set(ports)) == len(ports) >= 4 * len(files)


@pytest.mark.parametrize("file", ["README.md", "prometheus/prometheus.yml"])
def test_the_commands_for_prometheus_keep_it_on_its_machine(file):
    """Prometheus listens everywhere when it is not told otherwise, so every command tells it."""
    commands = re.findall(r"prometheus --config\.file=(?:[^\n]*\\\n)*[^\n]*", (CONFIG / file).read_text())
    assert commands
    assert all("--web.listen-address=127.0.0.1:9090" in command for command in commands)


def test_compose_mounts_what_is_there_and_sets_what_is_read():
    """Each file that the containers mount exists, each variable that is set is read, and each image has a version."""
    for name, service in SERVICES.items():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), name
        mounted = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")]
        assert all((CONFIG / path).exists() for path in mounted), name
        read = "".join((CONFIG / path).read_text() for path in mounted if path.endswith(".yaml"))
        for variable in service.get("environment", {}):
            if variable.startswith("GYM_"):
                assert f"${{env:{variable}" in read, (name, variable)


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_no_more_than_it_needs_to_be(name):
    """No container is root but the one that hands over volumes; memory is bounded, ports are on loopback."""
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] or name == "grafana"
    assert str(service.get("user", "")).split(":")[0] not in {"0", "root"}
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert (service.get("cap_add"), service.get("restart")) == (
        (["CHOWN"], None) if name == ONE_SHOT else (None, "unless-stopped")
    )


def test_volumes_are_handed_to_who_writes_them():
    """Each volume that a container with a user of its own mounts is made over to that user first."""
    _, owner, *_ = command = SERVICES[ONE_SHOT]["command"]
    handed = dict(volume.split(":") for volume in SERVICES[ONE_SHOT]["volumes"])
    assert sorted(handed.values()) == sorted(command[2:])
    for name, service in SERVICES.items():
        if "user" in service:
            assert service["user"] == owner
            assert service["depends_on"][ONE_SHOT] == {"condition": "service_completed_successfully"}
            named = {volume.split(":")[0] for volume in service["volumes"] if not volume.startswith("./")}
            assert named <= handed.keys(), name
