"""The conformance core: what a run does, whatever the engine.

Tests that are marked `conformance` run once on each engine with agents, all others on `local` alone.

```python
@pytest.mark.conformance                     # on every engine
@pytest.mark.conformance(every=True)         # with all of its parameters on all of them
@pytest.mark.conformance(exec=True)          # on those where `muster exec` reaches the nodes
@pytest.mark.conformance(not_on_server="why")  # not through `muster serve`
@pytest.mark.conformance(not_on_hosts="why")   # not on hosts that share nothing with this machine
```

The engine ssh has two places: `ssh`, where a program stands for ssh and all nodes are on this machine, and `hosts`, real ssh
servers that share nothing with it, which is long.

Elsewhere than on the local engine a test runs with the first of its parameters unless it says so: each behaviour is seen once.
With `--every-parameter` all are tried.

At a desk, tests that are marked `long` are left out, and nodes are kept together in one way alone: by namespaces, where these
are to be had. CI, and `--all`, leave nothing out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

import stream_hosts
from muster.agent.sandbox import namespaces
from muster.engines.registry import NAMES
from muster_server import served_home
from slurm_cluster import Cluster

Configure = Callable[[str], None]
NodeName = Callable[[int], str]
# In which engines keep their nodes together.
WAYS = {"local": ("namespaces", "plain")}
# On which the core runs: all engines with agents, the local one through `muster serve`, and ssh on hosts that share nothing.
PLACES = (*(name for name in NAMES if name != "modelarts"), "server", "hosts")  # its jobs are those of `tests/modelarts`


@cache
def no_namespaces() -> str:
    """Why nodes cannot be namespaces on this machine; found out once per process, since it takes another one."""
    return namespaces.available()


# Modules with tests of minutes, which begin first: the other workers have work until they end.
LONGEST = ("test_killed_server", "test_openapi", "test_attacks", "test_random_breaks")
NO_EXEC = ("slurm",)  # engines on which `muster exec` says which command of theirs does the same


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-parameter", action="store_true", help="run the conformance core with every parameter everywhere")
    parser.addoption("--all", action="store_true", help="run what is for CI, too: long tests, and nodes without namespaces")


@pytest.hookimpl(tryfirst=True)  # the marks that it adds are carried out by pytest's own hook
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives marked tests their engine, and its ways of keeping nodes together where they want to see them."""
    marker = metafunc.definition.get_closest_marker("conformance")
    if marker is None:
        return
    names = [name for name in PLACES if name not in NO_EXEC] if marker.kwargs.get("exec") else list(PLACES)
    names = [name for name in names if f"not_on_{name}" not in marker.kwargs]
    marks = {"hosts": [pytest.mark.long]}
    mark = pytest.mark.parametrize("engine", [pytest.param(name, marks=marks.get(name, ())) for name in names], indirect=True)
    if "containment" in metafunc.fixturenames:
        both = [(name, way) for name in names for way in WAYS.get(name, ("namespaces",))]
        ways = [pytest.param(name, way, marks=marks.get(name, ())) for name, way in both]
        mark = pytest.mark.parametrize(("engine", "containment"), ways, indirect=True)
    metafunc.definition.add_marker(mark)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what other engines are not asked again with other parameters, and what is for CI."""
    seen: set[tuple[str, str]] = set()
    left_out: dict[pytest.Item, None] = {}
    if not config.getoption("--every-parameter"):
        left_out.update(dict.fromkeys(item for item in items if _is_repeated(item, seen)))
    if not (config.getoption("--all") or os.environ.get("CI") or _is_named(config)):
        left_out.update(dict.fromkeys(filter(_is_for_ci, items)))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def _is_named(config: pytest.Config) -> bool:
    """Returns whether the command line picks files or tests: these run whole."""
    return any(Path(word.split("::")[0]).suffix == ".py" for word in config.args)


def _is_for_ci(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    way = parameters.get("containment", "namespaces")
    return item.get_closest_marker("long") is not None or (way == "plain" and not no_namespaces())


def _is_repeated(item: pytest.Item, seen: set[tuple[str, str]]) -> bool:
    """Whether this engine has been given the same test, with other parameters."""
    marker = item.get_closest_marker("conformance")
    if marker is None or marker.kwargs.get("every") or not isinstance(item, pytest.Function):
        return False
    name = str(item.callspec.params["engine"])
    test = (f"{item.path}::{item.originalname}", name)
    repeated = name != "local" and test in seen
    seen.add(test)
    return repeated


@pytest.fixture
def runs_at(request: pytest.FixtureRequest) -> str:
    """Where the runs of this test are, of PLACES."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return str(parameters.get("engine", "local"))


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, runs_at: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The engine that the settings of this test name; afterwards no run may have been on another."""
    name = "ssh" if runs_at == "hosts" else str(getattr(request, "param", "local"))
    site: Cluster | None = None
    if runs_at == "hosts":
        request.getfixturevalue("machines")
        _write(home, runs_at, "")
    if name == "slurm":
        site = request.getfixturevalue("slurm")
        monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
        _write(home, name, "")
    if runs_at == "ssh":
        monkeypatch.setenv("PATH", f"{stream_hosts.make(home.parent)}:{os.environ['PATH']}")
        _write(home, name, "")
    with ExitStack() as stack:
        if name == "server":
            stack.enter_context(served_home(request.getfixturevalue("_server_of_worker"), home))
            _write(home, name, "")
        yield name
    if site is not None:
        site.clear()
        elsewhere = {path.parent.name: used for path in home.glob("runs/*/run.json") if (used := _used(path)) != name}
        assert not elsewhere, f"these runs were not on {name}: {elsewhere}"


@pytest.fixture
def node_name(engine: str) -> NodeName:
    """Names a node as failures do: over ssh with its host."""
    return lambda node: f"node {node} (h{node + 1})" if engine == "ssh" else f"node {node}"


@pytest.fixture
def stopper(engine: str, request: pytest.FixtureRequest) -> str:
    """Who has stopped a run, in its reason: a server knows the name."""
    return request.getfixturevalue("_server_of_worker").name if engine == "server" else "the user"


@pytest.fixture
def configure(engine: str, runs_at: str, home: Path) -> Configure:
    """Writes the settings of a test, beside those of its engine."""
    return lambda text: _write(home, runs_at, text)


def _write(home: Path, place: str, text: str) -> None:
    """Nodes of the test's site see everything, and may use ssh as simulated ones do; hosts see only what is theirs."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.toml"
    hosts = '[hosts.test]\nnodes = ["h[1-4]"]\nssh = true\n'
    own = {"slurm": '[slurm]\nshared = ["/"]\nssh = true\n', "ssh": stream_hosts.group(home), "hosts": hosts}.get(place, "")
    engine = "ssh" if place == "hosts" else place
    chosen = 'server = "default"' if place == "server" else f'engine = "{engine}"'
    path.write_text(f"{chosen}\n{own}{text}")
    path.chmod(0o600)


def _used(path: Path) -> str:
    return str(json.loads(path.read_text())["engine"])
