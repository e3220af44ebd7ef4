"""Jaeger, Prometheus and the Collectors, each started from its file in `collector-config/` with nothing changed in it.

Only variables are set, as a user sets them: ports, folders to write in, who is behind whom.
"""

import json
import os
import shutil
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from backends.processes import LOOPBACK, Process, free_ports, get
from backends.programs import COLLECTOR, CONFIG, JAEGER, PROMETHEUS, PROMETHEUS_PAGES

JAEGER_TRACES_ASKED: Final = 1_000
"""Traces that one search may return, in traces; more than any test here makes."""

IN_MEMORY: Final = {
    # Of two storages under one name Jaeger takes this one.
    "memory": ("--config=yaml:extensions::jaeger_storage::backends::traces::memory::max_traces: 100000",)
}

QUERY_TLS: Final = "--config=yaml:extensions::jaeger_query::grpc::tls"


def configured(file: str | Path, tls: Mapping[str, str] | None) -> list[str]:
    """Return the options that name a program's files, the later laid over the earlier."""
    return [f"--config={CONFIG / one}" for one in ((file,) if tls is None else (file, "tls.yaml"))]


class Jaeger(Process):
    """Jaeger with `jaeger.yaml`, its storage in `folder`."""

    def __init__(  # noqa: PLR0913 - what a command line and an environment say
        self,
        folder: Path,
        *,
        prometheus: "Prometheus | None" = None,
        storage: str = "badger",
        usual_ports: bool = False,
        tls: Mapping[str, str] | None = None,
        query_tls: Mapping[str, str] | None = None,
    ) -> None:
        """Choose the storage ("badger" on disk, "ephemeral", "memory") and where its Monitor page finds its metrics.

        `tls` are the variables of `tls.yaml`, which is laid over the file; None: it receives in clear text. `query_tls`
        are the settings of TLS with which it is asked by gRPC; None: it is asked in clear text.
        """
        grpc, http, query, query_grpc, health, metrics, telemetry = free_ports(
            14317, 14318, 16686, 16685, 13134, 8889, 8887, take_usual=usual_ports
        )
        self.grpc = f"{LOOPBACK}:{grpc}"
        self.http = f"http://{LOOPBACK}:{http}"
        self.url = f"http://{LOOPBACK}:{query}"
        self.query_grpc = f"{LOOPBACK}:{query_grpc}"
        self.targets = [f"{LOOPBACK}:{metrics}", f"{LOOPBACK}:{telemetry}"]
        super().__init__(
            "jaeger",
            [
                JAEGER.find(),
                *configured("jaeger.yaml", tls),
                *IN_MEMORY.get(storage, ()),
                *(f"{QUERY_TLS}::{file}: {path}" for file, path in (query_tls or {}).items()),
            ],
            ready=f"http://{LOOPBACK}:{health}/status",
            folder=folder,
            environment={
                "OTEL_TRACES_SAMPLER": "always_off",  # else it traces itself, into itself
                "GYM_JAEGER_GRPC": self.grpc,
                "GYM_JAEGER_HTTP": f"{LOOPBACK}:{http}",
                "GYM_JAEGER_QUERY": f"{LOOPBACK}:{query}",
                "GYM_JAEGER_QUERY_GRPC": self.query_grpc,
                "GYM_JAEGER_HEALTH": f"{LOOPBACK}:{health}",
                "GYM_JAEGER_METRICS": f"{LOOPBACK}:{metrics}",
                "GYM_JAEGER_TELEMETRY_PORT": str(telemetry),
                "GYM_JAEGER_STATE": str(folder / "jaeger"),
                "GYM_JAEGER_EPHEMERAL": str(storage == "ephemeral").lower(),
                "GYM_JAEGER_UI": str(CONFIG / "jaeger-ui.json"),
                "GYM_JAEGER_PAGES": os.environ.get("GYM_JAEGER_PAGES", ""),
                "GYM_JAEGER_FLUSH": "1s",
                **({} if prometheus is None else {"GYM_JAEGER_PROMETHEUS": prometheus.url}),
                **(tls or {}),
            },
        )

    def page(self) -> str:
        """Return the first page as a browser gets it: one that says so, where the program was built without pages."""
        with get(self.url) as answer:
            text: str = answer.read().decode()
            return text

    def find(self, service: str, tags: Mapping[str, str] | None = None, **more: str) -> list[dict[str, Any]]:
        """Return the traces that a search for tags finds, in the form of Jaeger's own JSON.

        In a keyword the first ``_`` stands for a dot, as in ``failure_kind``.
        """
        dotted = {key.replace("_", ".", 1): value for key, value in more.items()}
        query = {
            "service": service,
            "limit": str(JAEGER_TRACES_ASKED),
            "lookback": "1h",
            "tags": json.dumps({**(tags or {}), **dotted}),
        }
        found: list[dict[str, Any]] = self._json(f"/api/traces?{urllib.parse.urlencode(query)}")["data"]
        return found

    def trace(self, trace_id: str) -> dict[str, Any]:
        """Return one trace as OTLP JSON; raises urllib's HTTPError (404) when there is none."""
        found: dict[str, Any] = self._json(f"/api/v3/traces/{trace_id}")["result"]
        return found

    def monitored(self, service: str) -> list[dict[str, Any]]:
        """Return the rates of calls that the Monitor page shows of a service."""
        query = {"service": service, "lookback": "300000", "step": "5000", "ratePer": "60000"}
        found: list[dict[str, Any]] = self._json(f"/api/metrics/calls?{urllib.parse.urlencode(query)}")["metrics"]
        return found

    def _json(self, path: str) -> Any:  # noqa: ANN401 - whatever Jaeger says
        with get(self.url + path, seconds=30) as answer:
            return json.load(answer)


class Prometheus(Process):
    """Prometheus with `prometheus/prometheus.yml`, its data in `folder`."""

    def __init__(self, folder: Path, *, usual_ports: bool = False) -> None:
        """Copy the configuration, because what it scrapes is named in files beside it."""
        (port,) = free_ports(9090, take_usual=usual_ports)
        self.url = f"http://{LOOPBACK}:{port}"
        self.write_url = f"{self.url}/api/v1/write"
        self._config = folder / "prometheus"
        pages = PROMETHEUS.cached.parent / PROMETHEUS_PAGES
        shutil.copytree(CONFIG / "prometheus", self._config, dirs_exist_ok=True)
        super().__init__(
            "prometheus",
            [
                PROMETHEUS.find(),
                f"--config.file={self._config / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'prometheus-data'}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--web.enable-remote-write-receiver",
                "--enable-feature=exemplar-storage",
                *([f"--web.local-assets={pages}"] if pages.is_dir() else []),
            ],
            ready=f"{self.url}/-/ready",
            folder=folder,
            environment={},
        )

    def scrape(self, **targets: list[str]) -> None:
        """Say where the scraped programs are, by the names of the files in `targets/`; they are reread at once."""
        for name, addresses in targets.items():
            (self._config / "targets" / f"{name}.yml").write_text(json.dumps([{"targets": addresses}]))

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of every series of an instant query; raises HTTPError for a wrong one."""
        path = f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with get(self.url + path, seconds=30) as answer:
            data = json.load(answer)["data"]
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def by(self, label: str, expression: str) -> dict[str, float]:
        """Return the values of an instant query by one label."""
        return {labels.get(label, ""): value for labels, value in self.query(expression)}

    def rules(self) -> list[dict[str, Any]]:
        """Return the groups of rules with the health of each and the alerts that are raised."""
        with get(f"{self.url}/api/v1/rules") as answer:
            groups: list[dict[str, Any]] = json.load(answer)["data"]["groups"]
            return groups

    def exemplars(self, expression: str, *, seconds: float = 3_600) -> list[dict[str, Any]]:
        """Return the labels of the exemplars of the last hour."""
        ((_, now),) = self.query("time()")
        period = {"query": expression, "start": str(now - seconds), "end": str(now + 60)}
        with get(f"{self.url}/api/v1/query_exemplars?{urllib.parse.urlencode(period)}") as answer:
            return [one["labels"] for series in json.load(answer)["data"] for one in series["exemplars"]]


class Collector(Process):
    """A Collector with one of the files, its queue in `folder`."""

    def __init__(  # noqa: PLR0913 - what a command line and an environment say
        self,
        file: str | Path,
        folder: Path,
        *,
        to: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        usual_ports: bool = False,
        tls: Mapping[str, str] | None = None,
    ) -> None:
        """Start from `file`: "agent.yaml", or a path elsewhere.

        `to` and `settings` are its variables, without the start that they have in common: where what goes, as
        ``{"JAEGER": jaeger.grpc}``, and the rest, as ``{"REDACT": "true"}``. `tls` are the variables of `tls.yaml`,
        which is laid over the file; None: it receives in clear text.
        """
        grpc, http, health, telemetry = free_ports(4317, 4318, 13133, 8888, take_usual=usual_ports)
        self.grpc = f"{LOOPBACK}:{grpc}"
        self.http = f"http://{LOOPBACK}:{http}"
        self.telemetry = f"{LOOPBACK}:{telemetry}"
        """Where it tells of itself, as Prometheus names a target."""
        name = Path(file).stem
        variables = {
            "GRPC": self.grpc,
            "HTTP": f"{LOOPBACK}:{http}",
            "HEALTH": f"{LOOPBACK}:{health}",
            "TELEMETRY_PORT": str(telemetry),
            "STATE": str(folder / f"{name}-queue"),
            "INSECURE": "true",
            "FLUSH": "1s",
            **to,
            **(settings or {}),
        }
        super().__init__(
            name,
            [COLLECTOR.find(), *configured(file, tls)],
            ready=f"http://{LOOPBACK}:{health}/",
            folder=folder,
            environment={
                **{f"GYM_COLLECTOR_{key}": value for key, value in variables.items()},
                **(tls or {}),
            },
        )

    def metrics(self, **labels: str) -> dict[str, float]:
        """Return what it tells of itself: each metric by name, summed over the series that have `labels`."""
        found: dict[str, float] = {}
        with get(f"http://{self.telemetry}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if not line.startswith("#") and all(f'{key}="{value}"' in line for key, value in labels.items()):
                    name, _, value = line.rpartition(" ")
                    name = name.partition("{")[0]
                    found[name] = found.get(name, 0.0) + float(value)
        return found
