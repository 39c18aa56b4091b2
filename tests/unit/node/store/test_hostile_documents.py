# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that a stored document with a value of the wrong JSON type anywhere ends in the documented error or in none."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import pathlib
import typing as t
import zlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Allocation
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import drain
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine.engine_start import read_alarm
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import (
    IpamUnreadable,
    LocalIpam,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import watch
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock, remote_endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints, file_name
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.remote_endpoints import RemoteUnreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import (
    Generation,
    Store,
    Stored,
    StoreError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Revert,
    Unconfirmed,
    UnconfirmedStore,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import (
    AgentSettings,
    SettingsError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.settings import load as load_settings

GOLDEN = pathlib.Path(__file__).parents[2] / "state" / "golden"

#: A list in so many others that the JSON parser gives up; it stands for a value in JSON text.
DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE: list[t.Any] = [
    None,
    True,
    7,
    -1,
    0.5,
    "x",
    [],
    ["x"],
    [[]],
    [None],
    {},
    {"x": 1},
    {"x": []},
    float("nan"),
    float("inf"),
]
Path = tuple[t.Union[str, int], ...]


def paths(document: t.Any) -> list[Path]:
    """Return the path of every value in a document, but of the first entry only in each list; () is the document."""
    items: t.Iterable[tuple[t.Any, t.Any]] = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document[:1])
    return [(), *((key, *path) for key, value in items for path in paths(value))]


def replaced(document: t.Any, path: Path, value: t.Any) -> t.Any:
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(document[path[0]], path[1:], value)
    return copy


def variants(document: t.Any) -> t.Iterator[tuple[Path, t.Any]]:
    """Yield (path, a copy of the document) with the value at `path` replaced by one of HOSTILE, or its key left out.

    All paths that `paths` returns have their turn with each value of HOSTILE.
    """
    for path in paths(document):
        for value in HOSTILE:
            yield path, replaced(document, path, value)
        if path and isinstance(path[-1], str):
            holder = document
            for key in path[:-1]:
                holder = holder[key]
            yield path, replaced(document, path[:-1], {key: holder[key] for key in holder if key != path[-1]})


def misfit(value: t.Any, hint: t.Any) -> str:
    """Return the first place in a value that differs from its type hint, and what it is there; "" if it conforms.

    Keys of mappings are not checked.
    """
    return _check_of(hint)(value)


@functools.cache
def _check_of(hint: t.Any) -> t.Callable[[t.Any], str]:
    """Return `misfit` for one type hint, which is evaluated once."""
    origin, arguments = t.get_origin(hint), t.get_args(hint)
    if hint is t.Any:
        return lambda value: ""
    if origin is t.Union:
        options = [_check_of(one) for one in arguments]

        def of_union(value: t.Any) -> str:
            found = [check(value) for check in options]
            return "" if "" in found else found[0]

        return of_union
    if origin is tuple:
        kinds = [_check_of(one) for one in arguments if one is not ...]

        def of_tuple(value: t.Any) -> str:
            if not isinstance(value, tuple) or (arguments[-1] is not ... and len(kinds) != len(value)):
                return f" is {value!r}"
            checks = kinds * len(value) if arguments[-1] is ... else kinds
            return next((f"[]{found}" for one, check in zip(value, checks) if (found := check(one))), "")

        return of_tuple
    if origin is not None:  # Mapping[str, X]
        check_each = _check_of(arguments[1])

        def of_mapping(value: t.Any) -> str:
            if not isinstance(value, t.Mapping):
                return f" is {value!r}"
            return next((f".{key}{found}" for key, one in value.items() if (found := check_each(one))), "")

        return of_mapping
    if hint in (int, float):
        numbers = (int, float) if hint is float else int

        def of_number(value: t.Any) -> str:
            fits = isinstance(value, numbers) and not isinstance(value, bool) and (hint is int or math.isfinite(value))
            return "" if fits else f" is {value!r}"

        return of_number
    has_fields = dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")
    fields = {name: _check_of(kind) for name, kind in (t.get_type_hints(hint) if has_fields else {}).items()}

    def of_class(value: t.Any) -> str:
        if not isinstance(value, hint):
            return f" is {value!r}"
        return next((f".{name}{found}" for name, check in fields.items() if (found := check(getattr(value, name)))), "")

    return of_class


def test_a_misfit_is_named_by_its_place() -> None:
    """The check itself notices a wrong value at any depth."""

    class Inner(t.NamedTuple):
        numbers: tuple[int, ...]
        ratio: float = 0.5

    hint = dict[str, tuple[str, t.Optional[Inner]]]
    assert misfit({"a": ("x", Inner((1, 2))), "b": ("y", None)}, hint) == ""
    assert misfit({"a": ("x", Inner((1, True)))}, hint) == ".a[].numbers[] is True"
    assert misfit({"a": ("x", Inner((), math.inf))}, hint) == ".a[].ratio is inf"
    assert misfit({"a": ("x",)}, hint) == ".a is ('x',)"
    assert misfit({"a": (1, None)}, hint) == ".a[] is 1"
    assert misfit([], hint) == " is []"


class Loader(t.NamedTuple):
    """One loader of a stored document: `read` gets the folder with the file `name`, and raises nothing but `error`.

    `document` is a valid content, `kind` the type of the results.
    """

    name: str
    document: t.Any
    read: t.Callable[[pathlib.Path], t.Any]
    error: tuple[type[Exception], ...]
    kind: t.Any


def golden(name: str) -> t.Any:
    return json.loads((GOLDEN / name).read_text("utf-8"))


def unconfirmed() -> dict[str, t.Any]:
    state = golden("state.json")
    return {
        "changes": ["a"], "plan": "p", "boot": "b", "deadline": 7.0, "within": 60.0, "bgp": True, "session": "",
        "cut": ["x"],
        "previous": {
            "state": golden("state_bare.json")["state"],
            **{name: state[name] for name in ("bird_config", "who", "when")},
        },
    }  # fmt: skip


def collected(folder: pathlib.Path) -> t.Any:
    (folder / "watch.lock").touch()
    return watch.collect(None, str(folder / "watch"))


NEWS = {
    "changes": ["a"], "when": "w", "from_plan": "p", "plan": "q", "reason": "r", "cut": ["x"], "problem": "",
    "told": True,
}  # fmt: skip
SETTINGS = dataclasses.asdict(AgentSettings())
LOADERS = {
    "state": Loader(
        "state.json", golden("state.json"), lambda folder: Store(str(folder)).load(), (StoreError,), Stored
    ),
    "generation": Loader(
        "generations/1.json",
        golden("generation.json"),
        lambda folder: Store(str(folder)).generation(1),
        (StoreError,),
        dict[str, t.Any],
    ),
    "generations": Loader(
        "generations/1.json",
        golden("generation.json"),
        lambda folder: tuple(Store(str(folder)).generations()),
        (),
        tuple[Generation, ...],
    ),
    "unconfirmed": Loader(
        "unconfirmed.json",
        unconfirmed(),
        lambda folder: UnconfirmedStore(str(folder)).load(),
        (StoreError,),
        Unconfirmed,
    ),
    "went back": Loader(
        "went-back.json", NEWS, lambda folder: UnconfirmedStore(str(folder)).last_revert(), (StoreError,), Revert
    ),
    "remote endpoints": Loader(
        "remote-endpoints.json",
        {"complete": True, "nodes": golden("remote_endpoints.json")},
        lambda folder: remote_endpoints.known(str(folder)),
        (RemoteUnreadable,),
        remote_endpoints.KnownEndpoints,
    ),
    "record": Loader(
        file_name(golden("workload.json")["id"]),
        {**golden("workload.json"), "relabelled": {"app": None}, "netns_identity": "1"},
        lambda folder: tuple(Endpoints(str(folder)).load()[0]),
        (),
        tuple[AttachedWorkload, ...],
    ),
    "settings": Loader(
        "agent.json",
        SETTINGS,
        lambda folder: load_settings(str(folder / "agent.json")).settings,
        (SettingsError,),
        AgentSettings,
    ),
    "drain mark": Loader(
        "drained.json", {"when": "w", "who": "me"}, lambda folder: drain.load(str(folder)), (), drain.Drained
    ),
    "alarm": Loader("alarm.json", {"alarm": "x"}, lambda folder: read_alarm(str(folder / "alarm.json")), (), str),
    "watch": Loader("watch", {"state": "stopped"}, collected, (), t.Optional[dict[str, t.Any]]),
}


#: A generation holds a state, which is tried by itself: `make test` leaves these two to `make soak`.
WITH_A_STATE = ("generation", "generations")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in WITH_A_STATE else name for name in LOADERS]
)
def test_a_value_of_the_wrong_type_is_refused_or_harmless(name: str, tmp_path: pathlib.Path) -> None:
    loader = LOADERS[name]
    file = tmp_path / loader.name
    file.parent.mkdir(exist_ok=True)
    if not file.exists() and loader.document:
        file.write_text(json.dumps(loader.document), "utf-8")
    assert misfit(loader.read(tmp_path), loader.kind) == "", "the document itself is not valid"
    wrong: list[str] = []
    for path, document in variants(loader.document):
        file.write_text(json.dumps(document), "utf-8")
        try:
            found = loader.read(tmp_path)
        except loader.error as error:
            assert str(file) in str(error)
            continue
        except Exception as error:  # noqa: BLE001 - what must not happen
            wrong.append(f"{path}: {type(error).__name__}: {error}")
            continue
        problem = misfit(found, loader.kind)
        if problem:
            wrong.append(f"{path}: accepted, {problem}")
    assert wrong == []


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize(
    "content", [DEEP, "", "{", "\x00", "NaN", '{"x": NaN}'], ids=["deep", "empty", "open", "zero", "NaN", "x NaN"]
)
def test_a_file_that_is_not_json_is_refused_or_harmless(name: str, content: str, tmp_path: pathlib.Path) -> None:
    loader = LOADERS[name]
    file = tmp_path / loader.name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, "utf-8")
    try:
        assert misfit(loader.read(tmp_path), loader.kind) == ""
    except loader.error as error:
        assert str(file) in str(error)


def journal_line(records: t.Any, crc: int = 0) -> bytes:
    text = json.dumps(records).encode()
    return b"%08x %s\n" % (zlib.crc32(text, crc), text)


JOURNAL: list[t.Any] = [
    ["calico-ipam", 1],
    ["boot", "b", 5.0],
    ["open", "10.244.1.0/26"],
    ["assign", "10.244.1.1", "h", {"namespace": "default"}, "pool", "10.244.1.0/26"],
    ["assign", "10.244.1.2", "i", {}, "pool", "10.244.1.0/26"],
    ["release", "10.244.1.2", 3.5],
]


def test_a_journal_with_a_record_of_the_wrong_type_is_refused_or_harmless(tmp_path: pathlib.Path) -> None:
    """A journal with a wrong value anywhere is refused as IpamUnreadable, or read as values of the right types.

    Its checksum is right, as of a file that another release wrote.
    """
    file = tmp_path / "allocations"
    each = [
        ((place, *path), [*JOURNAL[:place], record, *JOURNAL[place + 1 :]])
        for place, good in enumerate(JOURNAL)
        for path, record in variants(dict(enumerate(good)))
        if isinstance(record, dict)
        for record in [list(record.values())]
    ]
    wrong = []
    for path, document in [((), JOURNAL), *variants(JOURNAL), *each]:
        file.write_bytes(journal_line(document))
        ipam = LocalIpam(str(tmp_path), lambda: 0.0, lambda: "b")
        try:
            ipam.load()
            found = misfit(tuple(ipam.allocations()), tuple[Allocation, ...]) or misfit(ipam.opened, tuple[str, ...])
            ipam.flush()
            if found:
                wrong.append(f"{path}: accepted, {found}")
        except IpamUnreadable as error:
            assert str(file) in str(error)
        except Exception as error:  # noqa: BLE001 - what must not happen
            wrong.append(f"{path}: {type(error).__name__}: {error}")
    assert wrong == []


def test_a_journal_with_json_too_deep_to_read_is_refused(tmp_path: pathlib.Path) -> None:
    text = DEEP.encode()
    (tmp_path / "allocations").write_bytes(b"%08x %s\n" % (zlib.crc32(text), text))
    with pytest.raises(IpamUnreadable, match="cannot be read"):
        LocalIpam(str(tmp_path), lambda: 0.0, lambda: "b").load()


def test_a_lock_with_a_holder_that_cannot_be_read_is_reported_as_held(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock")
    with lock.held("me", 1, path):
        for content in ("[" * 4096, "7", "null", '{"who": 1}'):
            pathlib.Path(path).write_text(content, "utf-8")
            with (
                pytest.raises(lock.LockError, match="this node is being changed by another process"),
                lock.held("you", 0, path),
            ):
                pass
