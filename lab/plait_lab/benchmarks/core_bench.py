"""The core: filter evaluation, parsing, the Python index on W1 and W3, its memory, frame decoding.

Each figure stands beside an alternative. The index is checked against brute force before it is timed and again after
churn; a wrong answer ends the run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from plait_core.filters import Filter, parse
from plait_core.matching import PythonIndex
from plait_core.values import Attributes

from .groups import Group, Session
from .measurement import index_churn
from .measurement.baselines import BruteForce, DenseScan, check_index
from .measurement.workloads import WORKLOADS, Workload
from .measures import Quartiles, Stopwatch, microseconds, time_in_turn
from .reports import Figure, Target

_CHECKED = 500
_FOUR_ATOMS = "symbol == 'IBM' and 100 < price <= 130 and volume >= 1000"
_WIRE_TARGETS = {"identity": 400_000, "identity and attributes": 150_000}


def core_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of the core."""
    yield from _evaluation(session)
    yield from _parsing(session)
    for name in ("W1", "W3"):
        yield from _index(session, name)
    for name in ("W1", "W3"):
        yield from _memory(session, name)
    yield from _wire(session)
    yield from _kernel(session)


GROUP = Group("core", "The ground floor: filters, matching, frames", core_figures)


# --- filters ----------------------------------------------------------------------------------------------------------


def _evaluation(session: Session) -> Iterator[Figure]:
    """Evaluate a filter of four atoms on events that need all four, and on events that fail at the first."""
    session.progress("filter evaluation")
    rng = session.rng("evaluation")
    count = session.size(10_000, 1_000)
    prices = rng.uniform(100.01, 130, count).tolist()
    volumes = rng.integers(1000, 1_000_000, count).tolist()
    matching: list[Attributes] = [
        {"venue": 3, "symbol": "IBM", "side": "buy", "price": price, "volume": volume, "sector": "tech", "seq": number}
        for number, (price, volume) in enumerate(zip(prices, volumes, strict=True))
    ]
    other: list[Attributes] = [{**event, "symbol": "SAP"} for event in matching]
    filter = parse(_FOUR_ATOMS).matches
    by_hand: Callable[[Any], bool] = lambda a: (  # noqa: E731 - the comparison is with what people write
        a["symbol"] == "IBM" and 100 < a["price"] <= 130 and a["volume"] >= 1000
    )
    repeats = session.size(30, 3)
    for what, events, target in (
        ("four atoms, all evaluated", matching, Target("<=", 0.6)),
        ("four atoms, the first fails", other, Target("<=", 0.6)),
    ):
        calls = {"filter": _over(filter, events), "lambda by hand": _over(by_hand, events)}
        times = microseconds(calls, count, repeats)
        yield Figure(f"filter, {what}", times.pop("filter"), "us", target, times)


def _parsing(session: Session) -> Iterator[Figure]:
    """Parse texts that are not cached, of the form of W3."""
    session.progress("parsing")
    workload = WORKLOADS["W3"](session.size(6_000, 300), session.rng("parsing"))
    texts = [filter.text for filter in workload.filters()]
    calls: dict[str, Callable[[str], object]] = {
        "parse": parse,
        "parse and first evaluation": lambda text: parse(text).matches({}),
        "Python's own ast.parse": lambda text: ast.parse(text, mode="eval"),
    }
    times = time_in_turn(calls, texts, warm=len(texts) // 6)
    python = {"Python's ast.parse": times["Python's own ast.parse"].p50}
    yield Figure("parse a filter, p50", times["parse"].p50, "us", Target("<=", 200), python)
    yield Figure("parse a filter, p99", times["parse"].p99, "us")
    yield Figure("parse, compile, evaluate once, p50", times["parse and first evaluation"].p50, "us", None, python)


def _over(matches: Callable[[Attributes], bool], events: list[Attributes]) -> Callable[[], None]:
    def evaluate_all() -> None:
        for event in events:
            matches(event)

    return evaluate_all


# --- the index --------------------------------------------------------------------------------------------------------


def _index(session: Session, name: str) -> Iterator[Figure]:
    session.progress(f"{name}: filling")
    workload = WORKLOADS[name](session.size(10_000, 500), session.rng(f"index {name}"))
    index, adding = PythonIndex(), Stopwatch()
    events = workload.events(len(workload), stream=1)
    for (id, filter), event in zip(workload.subscriptions(), events, strict=True):
        adding(index.add, id, filter)
        index.match(event)
    label = f"{name}, {len(workload):,} filters"
    yield _checked(
        f"{label}: checked events", check_index(index, BruteForce(workload), None, workload.events(_CHECKED, 2))
    )
    quiet = yield from _matching(session, workload, index, label)
    yield Figure(f"{label}: add while filling, mean", adding.spread().mean, "us", Target("<=", 50))
    yield from _churn(session, workload, index, label, quiet)


def _matching(
    session: Session, workload: Workload, index: PythonIndex, label: str
) -> Generator[Figure, None, Quartiles]:
    """Time matching beside the dense scan. Yield figures; return the index's quartiles."""
    session.progress(f"{workload.name}: matching")
    scan = DenseScan(workload)
    warm, timed = session.size(20_000, 300), session.size(20_000, 300)
    found = 0

    def match(event: Attributes) -> None:
        nonlocal found
        found += len(index.match(event))

    times = time_in_turn({"index": match, "scan": scan.match}, workload.events(warm + timed, stream=3), warm)
    ours, floor = times["index"], times["scan"]
    target = Target("<=", 60) if workload.name == "W3" else None
    yield Figure(f"{label}: match p50", ours.p50, "us", target, {"dense scan": floor.p50})
    yield Figure(f"{label}: match p99", ours.p99, "us", None, {"dense scan": floor.p99})
    yield Figure(f"{label}: match p99.9", ours.p999, "us", None, {"dense scan": floor.p999})
    yield Figure(f"{label}: match mean", ours.mean, "us", None, {"dense scan": floor.mean})
    target = Target("<=", 1.3) if workload.name == "W1" else None
    yield Figure(f"{label}: match p50 / dense scan's", ours.p50 / floor.p50, "x", target)
    yield Figure(f"{label}: ids an event", found / (warm + timed), "")
    return ours


def _churn(session: Session, workload: Workload, index: PythonIndex, label: str, quiet: Quartiles) -> Iterator[Figure]:
    """Replace filters one by one and match an event after each, so that deferred costs of a change are included."""
    session.progress(f"{workload.name}: churn")
    after = workload.successor(1)
    adding, removing, matching = Stopwatch(), Stopwatch(), Stopwatch()
    count = len(workload) // 2
    changes = zip(workload.ids[:count].tolist(), after.subscriptions(), workload.events(count, stream=4), strict=False)
    for removed, (id, filter), event in changes:
        removing(index.remove, removed)
        adding(index.add, id, filter)
        matching(index.match, event)
    add, remove, match = adding.spread(), removing.spread(), matching.spread()
    later = match.mean - quiet.mean
    amortised = (add.mean + remove.mean + max(later, 0)) / 2
    parts = {"add": add.mean, "remove": remove.mean, "what both add to the next match": later}
    yield Figure(f"{label}: add or remove, amortised", amortised, "us", Target("<=", 50), parts)
    alone = _time_normal_forms(workload.successor(2), count)
    beside = {"its normal form and text alone": alone.mean}
    yield Figure(f"{label}: add, mean", add.mean, "us", Target("<=", 50), beside)
    yield Figure(f"{label}: add, p99", add.p99, "us", None, {"p99.9": add.p999, "longest": add.longest})
    yield Figure(f"{label}: remove, mean", remove.mean, "us", Target("<=", 50))
    yield Figure(f"{label}: remove, p99", remove.p99, "us", None, {"p99.9": remove.p999, "longest": remove.longest})
    yield Figure(f"{label}: match between changes, p50", match.p50, "us", None, {"without changes": quiet.p50})
    yield Figure(f"{label}: match between changes, p99.9", match.p999, "us", None, {"without changes": quiet.p999})
    live = set(workload.ids[count:].tolist()) | set(after.ids[:count].tolist())
    events = workload.events(_CHECKED, stream=5)
    yield _checked(
        f"{label}: checked events after churn", check_index(index, BruteForce(workload, after), live, events)
    )


def _time_normal_forms(workload: Workload, count: int) -> Quartiles:
    watch = Stopwatch()
    for filter, _ in zip(workload.filters(), range(count), strict=False):
        watch(_normal_form_and_text, filter)
    return watch.spread()


def _normal_form_and_text(filter: Filter) -> object:
    return filter.normal, filter.text


def _memory(session: Session, name: str) -> Iterator[Figure]:
    """Measure memory growth from the first turnover to the last. Within a tenth of the index's memory counts as
    flat."""
    filters, turns = session.size(10_000, 200), session.size(10, 2)
    session.progress(f"{name}: {turns} turnovers")
    memory = index_churn.measure_churn(name, filters, turns, int(session.rng(f"memory {name}").integers(2**32)))
    label = f"{name}, {filters:,} filters"
    yield Figure(f"{label}: memory of filters and index", memory.index, "MB", None, {"a bare process": memory.empty})
    target = Target("<=", memory.index / 10) if not session.quick else None
    marks = {1, (turns + 1) // 2, turns}
    beside = {f"after {turn}": memory.turnovers[turn - 1] for turn in sorted(marks)}
    yield Figure(f"{label}: growth over {turns} turnovers", memory.growth, "MB", target, beside)


def _checked(measure: str, count: int) -> Figure:
    return Figure(measure, count, "right", Target(">=", _CHECKED))


# --- what others measure ----------------------------------------------------------------------------------------------


def _wire(session: Session) -> Iterator[Figure]:
    session.progress("frame decoding")
    try:
        wire_bench = importlib.import_module("plait_lab.benchmarks.wire_bench")
    except ImportError as error:
        session.progress(f"frame decoding left out: {error}")
        return
    found: dict[str, float] = wire_bench.measure_decoding(6.0 if not session.quick else 0.3)
    beside = {name: rate for name, rate in found.items() if name not in _WIRE_TARGETS}
    for name, target in _WIRE_TARGETS.items():
        yield Figure(f"decode 128-byte frames: {name}", found[name], "/s", Target(">=", target), beside)


def _kernel(session: Session) -> Iterable[Figure]:
    """Return the figures of the kernel's benchmarks, if it is installed and they form no group of their own."""
    if importlib.util.find_spec("plait_kernel") is None:
        session.progress("the native kernel is not installed: left out")
        return ()
    try:
        kernel_bench = importlib.import_module("plait_lab.benchmarks.kernel_bench")
    except ImportError as error:
        session.progress(f"the native kernel left out: {error}")
        return ()
    if hasattr(kernel_bench, "GROUP"):  # the driver runs it as a group
        return ()
    session.progress("native kernel")
    figures: Iterable[Figure] = kernel_bench.kernel_figures()
    return figures
