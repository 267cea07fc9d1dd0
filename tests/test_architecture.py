"""Check in the sources which packages import each other, where I/O happens, and the size and names of modules."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "plait_core": set(),
    "plait_kernel": {"plait_core"},
    "plait_telemetry": {"plait_core"},
    "plait_net": {"plait_core"},
    "plait_crypto": {"plait_core"},
    "plait_keyserver": {"plait_core", "plait_crypto", "plait_net"},
    "plait_broker": {"plait_core", "plait_crypto", "plait_net", "plait_telemetry"},
    "plait_peer": {"plait_core", "plait_crypto", "plait_net", "plait_telemetry"},
    "plait": {"plait_core", "plait_crypto", "plait_net"},
    "plait_analytics": {"plait_core", "plait"},
}
MAY_IMPORT["plait_lab"] = set(MAY_IMPORT)

NO_IO = {"asyncio", "socket", "selectors", "ssl", "time", "random", "secrets", "threading", "subprocess", "uvloop"}
NO_IO |= {"os", "io", "pathlib", "tempfile", "sqlite3", "datetime", "logging"}
"""Law 1: time, randomness and the outside world come to protocols as arguments."""

ALLOWED_IN_CORE = {"plait_core/native.py": {"os"}, "plait_core/value_mapping.py": {"datetime"}}
"""One module reads the environment once, while it is imported: whether to use the kernel. The other maps the types of
`datetime`, and reads no clock."""

VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "stuff", "tools"}
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60


def packages() -> dict[str, Path]:
    found = {init.parent.name: init.parent for depth in ("*", "*/*") for init in ROOT.glob(f"{depth}/*/__init__.py")}
    return {name: path for name, path in found.items() if name in MAY_IMPORT and ".venv" not in path.parts}


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Top-level names of everything that a file imports absolutely."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def all_modules() -> list[tuple[str, Path]]:
    return [(name, path) for name, package in sorted(packages().items()) for path in modules(package)]


def by_path(entry: object) -> str | None:
    return str(entry.relative_to(ROOT)) if isinstance(entry, Path) else None


@pytest.mark.parametrize(("package", "path"), all_modules(), ids=by_path)
def test_imports_follow_the_design(package: str, path: Path) -> None:
    ours = {name for name in imports(path) if name in MAY_IMPORT and name != package}
    assert ours <= MAY_IMPORT[package], f"{path} must not import {sorted(ours - MAY_IMPORT[package])}"


BROKER = ROOT / "broker" / "plait_broker"
IO_MODULES = {"command.py", "testing.py", "__main__.py"}


PROTOCOL_ROOMS = ("pipeline", "clients", "adapter", "overlay", "tracing")


def protocols() -> list[Path]:
    """The modules of the broker that do no I/O."""
    top = [path for path in sorted(BROKER.glob("*.py")) if path.name not in IO_MODULES]
    return top + [
        path for room in ("pipeline", "clients", "adapter", "overlay", "tracing") for path in modules(BROKER / room)
    ]


TELEMETRY = ROOT / "core" / "plait_telemetry"
WRITES = {"recording.py", "readers.py", "writer.py"}


@pytest.mark.parametrize("path", [path for path in modules(TELEMETRY) if path.name not in WRITES], ids=by_path)
def test_recording_code_does_no_io(path: Path) -> None:
    assert not set(imports(path)) & NO_IO


@pytest.mark.parametrize("path", protocols(), ids=by_path)
def test_the_brokers_protocol_does_no_io(path: Path) -> None:
    assert not set(imports(path)) & NO_IO


@pytest.mark.parametrize(
    "path", [*modules(ROOT / "core" / "plait_core"), *modules(ROOT / "crypto" / "plait_crypto")], ids=by_path
)
def test_the_core_does_no_io(path: Path) -> None:
    allowed = ALLOWED_IN_CORE.get("/".join(path.parts[-2:]), set())
    assert not set(imports(path)) & NO_IO - allowed


NEVER_IMPORTED = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
NEVER_CALLED = {
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "yaml.load",
    "yaml.unsafe_load",
    "asyncio.create_subprocess_shell",
}
EXECUTES = {"plait_core/filters/compiling.py"}
"""Modules that call `exec`. This one compiles filters to closures, from source without any text of a filter."""


@pytest.mark.parametrize(("package", "path"), [one for one in all_modules() if one[0] != "plait_lab"], ids=by_path)
def test_no_input_is_ever_executed(package: str, path: Path) -> None:
    """Check SCORECARD S14: no input is ever executed. Ruff has this rule as well, but `noqa` switches it off."""
    assert not NEVER_IMPORTED & set(imports(path))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            known = called == "exec" and "/".join(path.parts[-3:]) in EXECUTES
            assert called not in NEVER_CALLED or known, f"{path}:{node.lineno} calls {called}"
            shells = [word for word in node.keywords if word.arg == "shell" and ast.unparse(word.value) != "False"]
            assert not shells, f"{path}:{node.lineno} starts a shell"


@pytest.mark.parametrize(("package", "path"), all_modules(), ids=by_path)
def test_modules_and_functions_are_short(package: str, path: Path) -> None:
    text = path.read_text()
    assert path.stem not in VAGUE, "a vague name"
    assert len(text.splitlines()) <= FILE_LINES_MAX + 100, "is it two things?"
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or len(text.splitlines()) < 20, "a module has a docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= FUNCTION_LINES_MAX + 10, f"{node.name} is two things"


@pytest.mark.parametrize("package", sorted(packages()))
def test_distributions_declare_what_they_import(package: str) -> None:
    home = packages()[package].parent
    project = tomllib.loads((home / "pyproject.toml").read_text())["project"]
    groups = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    beside = {name for name, path in packages().items() if path.parent == home}
    declared = {_import_name(entry) for group in groups for entry in group} | beside
    homes = {packages()[name].parent for name in declared if name in packages()}
    declared |= {name for name, path in packages().items() if path.parent in homes}  # the same distribution's packages
    third_party = {
        name for path in modules(packages()[package]) for name in imports(path) if name not in sys.stdlib_module_names
    }
    undeclared = third_party - declared - {"__future__"} - _optional(package)
    assert not undeclared, f"{package} imports {sorted(undeclared)} without declaring it"


IMPORTED_AS = {"pillow": "PIL"}


def _import_name(requirement: str) -> str:
    name = requirement
    for stop in "<>=!~[; ":
        name = name.partition(stop)[0]
    return IMPORTED_AS.get(name.strip(), name.strip().replace("-", "_"))


def _optional(package: str) -> set[str]:
    """Return the packages that the laboratory uses if they are installed, and otherwise skips with a message."""
    return {"plait_kernel"} if package == "plait_lab" else set()


def test_members_agree_on_version_and_python() -> None:
    projects = [
        tomllib.loads((package.parent / "pyproject.toml").read_text())["project"] for package in packages().values()
    ]
    assert len({project["requires-python"] for project in projects}) == 1
    assert len({project["version"] for project in projects}) == 1


def test_no_top_level_folder_is_a_package() -> None:
    assert not list(ROOT.glob("*/__init__.py"))


# --- constructors, cycles and names -----------------------------------------------------------------------------------

ARGUMENTS_MAX = 8


@pytest.mark.parametrize(("package", "path"), all_modules(), ids=by_path)
def test_constructors_take_few_arguments(package: str, path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    count = len(item.args.args) + len(item.args.kwonlyargs) - 1
                    assert count <= ARGUMENTS_MAX, f"{path}: {node.name} takes {count} arguments"


def imported_modules(module: str, path: Path, known: set[str]) -> set[str]:
    """Return the modules of the same package that a module imports anywhere, for types alone or at run time."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
        for alias in node.names:
            name = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
            if name in known and name not in (module, package.partition(".")[0]):
                found.add(name)
    return found


def module_name(package: str, path: Path) -> str:
    root = packages()[package].parent
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", sorted(packages()))
def test_no_modules_need_each_others_types(package: str) -> None:
    paths = {module_name(package, path): path for path in modules(packages()[package])}
    graph = nx.DiGraph()
    graph.add_nodes_from(paths)
    for module, path in paths.items():
        graph.add_edges_from((module, other) for other in imported_modules(module, path, set(paths)))
    for cycle in nx.strongly_connected_components(graph):
        assert len(cycle) == 1, f"a cycle: {sorted(cycle)}"


MANY_MEANINGS = {
    "plait": {
        "Advertisement",
        "Client",
        "Event",
        "Subscription",
        "UnsealedEvent",
        "connect",
        "peer",
    },  # plait.sync mirrors them, and `plait peer` opens a peer
    "plait_lab": {"main"},
}
"""Public names that are defined twice in one package. A set may only shrink."""


@pytest.mark.parametrize("package", sorted(packages()))
def test_a_public_name_means_one_thing(package: str) -> None:
    defined: dict[str, set[str]] = {}
    for path in modules(packages()[package]):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                "_"
            ):
                defined.setdefault(node.name, set()).add(module_name(package, path))
    twice = {name: sorted(where) for name, where in defined.items() if len(where) > 1}
    assert twice.keys() <= MANY_MEANINGS.get(package, set()), twice


def constructors() -> list[tuple[Path, ast.ClassDef, ast.FunctionDef]]:
    """Return the constructors of the product, each with its class."""
    found = []
    for package, path in all_modules():
        if package == "plait_lab":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
                found += [(path, node, method) for method in methods if method.name in ("__init__", "__post_init__")]
    return found


def test_no_part_is_completed_from_outside() -> None:
    """A constructor assigns attributes of its own object alone: the parts that it gets or builds are complete."""
    for path, _, constructor in constructors():
        for node in ast.walk(constructor):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                owner = ast.unparse(node.value)
                assert owner == "self", f"{path}:{node.lineno} completes {owner}"


def test_no_part_gets_a_callback_into_one_that_is_not_built_yet() -> None:
    for path, made, constructor in constructors():
        built: dict[str, int] = {}
        for node in ast.walk(constructor):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                built[node.attr] = min(node.lineno, built.get(node.attr, node.lineno))
        for callback in (node for node in ast.walk(constructor) if isinstance(node, ast.Lambda)):
            for node in ast.walk(callback):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                    late = built.get(node.attr, 0) > callback.lineno
                    assert not late, (
                        f"{path}:{callback.lineno} {made.name} calls self.{node.attr}, which is built later"
                    )


JSON_OBJECT = ROOT / "core" / "plait_core" / "values.py"
TABLES = {"broker/plait_broker/server/config/config_reader.py"}
"""A table of a TOML file is no JSON."""


@pytest.mark.parametrize(("package", "path"), all_modules(), ids=by_path)
def test_one_module_alone_defines_json(package: str, path: Path) -> None:
    if path == JSON_OBJECT or path.relative_to(ROOT).as_posix() in TABLES:
        return
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = {ast.unparse(name) for name in (node.targets if isinstance(node, ast.Assign) else [node.target])}
            again = "Json" in names or ast.unparse(node.value) == "dict[str, Any]"
            assert not again, f"{path}:{node.lineno} defines plait_core.values.Json once more"
