# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile texts, a NodeState with a text in every field that takes one, and the output of all writers for it."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

import jinja2
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    BackupRoute,
    Bfd,
    Bird,
    BirdPeer,
    BirdPool,
    BirdRoute,
    Communities,
    Vtep6,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_rules import (
    FilterFunction,
    FilterOperation,
    FilterRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset, iptables, sysctl
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.encoding import (
    netns_encoding,
    sysctl_encoding,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import SetWrite
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Failsafe,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicyTier,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    NO_INTERFACES,
    with_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    FdbEntry,
    Hook,
    IpSet,
    IptablesTable,
    Neighbor,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.fakes.kernel import FakeKernel

#: Characters that some reader takes for the end of a line.
BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0")

HOSTILE = (
    *(f"10.0.0.1{one}save -file /run/written" for one in BREAKS),
    *(f"cali1{one}-A INPUT -j ACCEPT" for one in ("\n", " ", "\t", '" ', '\n"')),
    "10.0.0.1 nomatch",
    "10.0.0.1 timeout 1",
    "0.0.0.0/0\nCOMMIT\n*filter\n-F\nCOMMIT",
    "10.0.0.0/8 -j ACCEPT",
    "1.2.3.4-255.255.255.255",
    "localhost",
    '10.0.0.1"; include "/etc/passwd',
    "x; } protocol static evil { route 0.0.0.0/0 blackhole; } #",
    "' { evil } '",
    "\\",
    '"',
    'x"',
    "# x",
    "{}",
    "{{ 1 }}",
    "$(id)",
    "-",
    "--help",
    "-f",
    "-file",
    "COMMIT",
    "*filter",
    "../../../etc/passwd",
    "..",
    "/etc/passwd",
    "net/ipv4/../../kernel/core_pattern",
    "x\x1b[2J\x1b]0;evil\x07",
    "x\x9b2J",
    "\u202egnp.exe",
    "\ud800",
    "x\udcff",
    "ü",
    "a" * 1100,
    "10.0.0.1," + "a" * 12000,
    " ",
    "",
)

_NET = Entity(nets=("10.9.0.0/16",), not_nets=("10.9.1.0/24", "10.9.2.0/24"))
_BY_NAME = Entity(selector="app == 'a'", not_selector="app == 'b'", ports=(NamedPort("http"), PortRange(80, 90)))


def _policy_state() -> PolicyState:
    rules = (
        model.PolicyRule(model.ALLOW, protocol="tcp", source=_NET, destination=_BY_NAME, annotations=(("a", "b"),)),
        model.PolicyRule(model.DENY, not_protocol="udp"),
        model.PolicyRule(model.LOG),
    )
    policies = (
        Policy("default/web", "NetworkPolicy", types=(model.INGRESS, model.EGRESS), ingress=rules, egress=rules,
               performance_hints=("AssumeNeededOnEveryNode",)),
        Policy("host", selector="host == 'x'", ingress=rules, tier="security", types=(model.INGRESS,)),
    )  # fmt: skip
    endpoints = (
        Endpoint(
            model.WORKLOAD_ENDPOINT, "default/w", "n1", "cali1", ("10.244.1.1", "fd00::1"), (("app", "a"),),
            ("p",), (DefinedPort("http", "tcp", 80),), "default",
        ),
        Endpoint(
            model.WORKLOAD_ENDPOINT, "default/v", "n2", "cali2", ("10.244.2.1", "fd00::2"), (("app", "a"),),
            ("p",), (DefinedPort("http", "tcp", 80),), "default",
        ),
        Endpoint(model.HOST_ENDPOINT, "eth", "n1", "eth1", ("10.10.1.11",), (("host", "x"),), ("p",)),
    )  # fmt: skip
    return PolicyState(
        model.policy_set(
            [PolicyTier("security", 1.0)],
            policies,
            [PolicyProfile("p", (("x", "y"),), ingress=rules, egress=rules)],
            [PolicyNetworkSet("default/net", "default", ("10.20.0.0/16",), (("app", "a"),), ("p",))],
        ),
        endpoints,
        PolicySettings(failsafe_inbound=(Failsafe("tcp", 22, "10.0.0.0/8"),), workload_profiles=("p",)),
    )


def _bird() -> Bird:
    rule = FilterRule(
        True, "10.0.0.0/8", "In", (8, 32), True, "eth*", "iBGP", (1, 2), (3,), 5, True,
        (FilterOperation("community", (1, 2)),),
    )  # fmt: skip
    peer = BirdPeer(
        "Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="n2", source_address="10.10.1.11",
        cluster_id="244.0.0.1", password="tor:key", bfd=Bfd(), reachable_by="10.10.1.1", filters=("f",),
    )  # fmt: skip
    return Bird(
        "10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", blocks=("10.244.1.0/26", "fd00::/122"),
        pools=(BirdPool("10.244.0.0/16", "tunl0", True, 1480, True, 26), BirdPool("fd00::/64", "vxlan-v6.calico")),
        peers=(peer, dataclasses.replace(peer, name="Global_1", kind="external")), cluster_id="244.0.0.1",
        address6="fd01::1", subnet6="fd01::/64", secrets=("tor:key",),
        backups=(BackupRoute("10.244.2.0/26", "10.10.1.12"),), backup_pools=(BirdPool("10.244.0.0/16", "tunl0"),),
        backups_lead=True, routers_alone=("10.244.2.0/26",), vteps6=(Vtep6("fd01::2", "fe80::1"),),
        filters=(FilterFunction("f", "import", 4, "'bgp_f_importFilterV4'", (rule,), True),),
        communities=(Communities("10.244.0.0/16", ((1, 2),), ((1, 2, 3),)),), ignored_interfaces=("docker*",),
        include_dir="/etc/calico/bird.d",
    )  # fmt: skip


def state() -> NodeState:
    """Return a NodeState in which every field that is or holds a text has one."""
    label = {"app": "a"}
    return NodeState(
        node="n1", address="10.10.1.11/24", plan="p", phase=Phase.CONVERGE, address6="fd01::1/64",
        pools=(Pool("pool", "10.244.0.0/16", 26, "IPIP", True), Pool("six", "fd00::/64", 122, "VXLAN", True)),
        ipam=NodeIpam(
            1, (Block("10.244.1.0/26", "pool"),), (Block("10.244.3.0/26", "pool"),), {"ipip": "10.244.1.2"},
            {"default/w": "10.244.1.1"}, ("10.244.9.0/24",), {"default/w": "fd00::1"}, {"pool": "10.244.1.63"},
        ),
        devices=(
            TunnelDevice("tunl0", "ipip", 1480, "10.10.1.11", "10.244.1.2"),
            TunnelDevice("vxlan-v6.calico", "vxlan", 1430, "fd01::1", "fd00::9", "66:00:00:00:00:01", 4096, 4789),
        ),
        neighbors=(Neighbor("vxlan-v6.calico", "fe80::1", "66:00:00:00:00:02"),),
        fdb=(FdbEntry("vxlan-v6.calico", "66:00:00:00:00:02", "fd01::2"),),
        workloads=(
            VethEndpoint("w", "cali1", "10.244.1.1", 1480, "pool", "default", "ns", "eth0", None, label,
                             mac="02:00:00:00:00:01", address6="fd00::1", pool6="six",
                             ports=(PublishedPort("tcp", 8080, 80, "10.10.1.11"),)),
        ),
        routes=(Route("10.244.1.1/32", device="cali1", gateway="10.10.1.1"),),
        rules=(RoutingRule(1, 2, 3), RoutingRule(0, 2, 3, interface="caliprobe", tos=28)),
        sysctls=(Sysctl("net/ipv4/conf/cali1/proxy_arp", "1"),),
        ipsets=(
            IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11", "10.10.1.12")),
            IpSet("cali60all-hosts-net", "hash:net", ("fd01::1", "fd01::2")),
        ),
        iptables=(
            IptablesTable("nat", {"cali-POSTROUTING": ("-s 10.244.0.0/16 -j MASQUERADE",)},
                          (Hook("POSTROUTING", "-j cali-POSTROUTING"),), 4, {"cali-POSTROUTING": "NAT"}),
        ),
        bird_routes=(BirdRoute("10.244.2.0/26", "10.10.1.12", "tunl0", True, "n2", None, "10.10.1.12"),),
        bird=_bird(),
        nodes=(FleetMember("n2", "10.10.1.12/24", 64512, False, label, "fd01::2/64", ("10.244.2.63",)),),
        probe_endpoint=VethEndpoint(
            "probe", "caliprobe", "10.244.1.63", 1480, "pool", "calico-system", "calico-probe",
            further=("10.245.1.63",),
        ),
        policy=_policy_state(),
    )  # fmt: skip


def endpoints_of_others() -> tuple[Endpoint, ...]:
    """Return endpoints as another node reports them, which do not come from the controller."""
    return (
        Endpoint(
            model.WORKLOAD_ENDPOINT, "default/o", "n3", "cali3", ("10.244.3.1", "fd00::3"), (("app", "a"),),
            ("p",), (DefinedPort("http", "tcp", 80),), "default",
        ),
    )  # fmt: skip


# --- every text in a value ------------------------------------------------------------------------------------------

Path = tuple[t.Union[str, int], ...]


def texts(value: t.Any, path: Path = ()) -> t.Iterator[Path]:
    """Yield the path of each text in `value`, with `path` before it.

    A path has names of fields, positions, and "key", n or "value", n in mappings. Only dataclasses, tuples and mappings
    are searched, not lists or sets. Each key of a mapping counts as a text.
    """
    if isinstance(value, str):
        yield path
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from texts(item, (*path, position))
    elif isinstance(value, t.Mapping):
        for position, (_key, item) in enumerate(value.items()):
            yield (*path, "key", position)
            yield from texts(item, (*path, "value", position))


def replaced(value: t.Any, path: Path, text: str) -> t.Any:
    """Return a copy of `value` with `text` at `path`, a path of texts(). Two keys that become equal are merged."""
    if not path:
        return text
    step, rest = path[0], path[1:]
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{str(step): replaced(getattr(value, str(step)), rest, text)})
    if isinstance(value, tuple):
        return tuple(replaced(item, rest, text) if number == step else item for number, item in enumerate(value))
    number, deeper = t.cast(int, rest[0]), rest[1:]
    items = list(value.items())
    key, item = items[number]
    items[number] = (text, item) if step == "key" else (key, replaced(item, deeper, text))
    return dict(items)


def text_fields(kind: t.Any, seen: t.Optional[set[t.Any]] = None) -> set[str]:
    """Return `Class.field` of every field below `kind` that holds texts, by its type hints.

    `seen` are classes to leave out; those that are visited are added to it.
    """
    seen = set() if seen is None else seen
    found: set[str] = set()
    if kind in seen:
        return found
    seen.add(kind)
    if dataclasses.is_dataclass(kind):
        for name, hint in t.get_type_hints(kind).items():
            if str in _kinds(hint):
                found.add(f"{kind.__name__}.{name}")
            for inner in _kinds(hint):
                found |= text_fields(inner, seen)
    return found


def _kinds(hint: t.Any) -> set[t.Any]:
    arguments = t.get_args(hint)
    return set().union(*(_kinds(one) for one in arguments)) if arguments else {hint}


def filled_fields(value: t.Any) -> set[str]:
    """Return `Class.field` of every field below `value` that holds a text."""
    found: set[str] = set()
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if any(len(path) == 0 or not _crosses(inner, path) for path in texts(inner)):
                found.add(f"{type(value).__name__}.{field.name}")
            found |= filled_fields(inner)
    elif isinstance(value, tuple):
        found = set().union(*map(filled_fields, value)) if value else found
    elif isinstance(value, t.Mapping):
        found = set().union(*map(filled_fields, value.values())) if value else found
    return found


def _crosses(value: t.Any, path: Path) -> bool:
    """Return whether `value` or a value along the path is a dataclass: then the text belongs to a field of that one.

    Tuples are followed. A mapping ends the search with False.
    """
    for step in path:
        if dataclasses.is_dataclass(value):
            return True
        if isinstance(value, tuple):
            value = value[step]
        else:
            break
    return dataclasses.is_dataclass(value)


# --- the output of all writers for a state --------------------------------------------------------------------------


@dataclasses.dataclass
class Written:
    """All that the writers write for a state.

    `ipset` and `iptables` are inputs of `ipset restore` and of iptables-restore. Single set members, which go by
    netlink, are in `ipset` as commands. `bird` is bird.cfg, "" if none is written. `secrets` is the file of BIRD's
    passwords. `paths` are the files of sysctls and of network namespaces. `lines` are the plan's lines of sets, rules
    and sysctls, and `refused` the texts of refusals.
    """

    ipset: list[str] = dataclasses.field(default_factory=list)
    iptables: list[str] = dataclasses.field(default_factory=list)
    bird: str = ""
    secrets: str = ""
    paths: list[str] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)


class _Recorder(FakeKernel):
    """A FakeKernel that keeps in `written` inputs of programs that write sets and rules, and changes of single members.

    `run` raises AssertionError for an argument with a line feed or NUL.
    """

    def __init__(self, written: Written) -> None:
        super().__init__()
        self._inputs = written

    def run(self, argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> t.Any:
        if argv[0] == "ipset" and argv[-1] == "restore":
            self._inputs.ipset.append(stdin)
        elif argv[0].endswith("-restore"):
            self._inputs.iptables.append(stdin)
        assert not any(set(word) & set("\n\0") for word in argv)
        return super().run(argv, stdin, timeout)

    def ipset_write(self, writes: t.Sequence[SetWrite]) -> None:
        self._inputs.ipset.extend(f"{one.line}\n" for one in writes)
        super().ipset_write(writes)


def write(desired: NodeState, others: t.Iterable[Endpoint] = (), known: t.Optional[_Known] = None) -> Written:
    """Give a state to all writers, and return what they write.

    A ValueError, KeyError or UndefinedError of a compiler or renderer counts as a refusal, and that part is not
    written. An ApplyError is a refusal, too; other errors are raised. `others` are endpoints that other nodes reported.
    `known` is a state and the output for it: if the fields of the firewall are the same objects in it, sets, tables and
    all lines and refusals are taken from there, and those of all else are added again.
    """
    if known is not None and all(getattr(known[0], name) is getattr(desired, name) for name in _OF_FIREWALL):
        written = dataclasses.replace(known[1], paths=[], lines=list(known[1].lines), refused=list(known[1].refused))
        _write_rest(desired, written)
        return written
    written = Written()
    kernel = _Recorder(written)
    guarded = _attempt(written, lambda: with_policy(desired, NO_INTERFACES, others)) if desired.policy else desired
    if guarded is not None:
        write_firewall(kernel, guarded, written)
    _write_rest(desired, written)
    return written


_Known = tuple[NodeState, Written]
_OF_FIREWALL = ("node", "address", "address6", "policy", "workloads", "devices", "ipsets", "iptables", "pools",
                "probe_endpoint", "nodes")  # fmt: skip


def _write_rest(desired: NodeState, written: Written) -> None:
    _attempt(written, lambda: _sysctls(desired, written))
    for workload in desired.endpoints:
        name = workload.netns or workload.name
        _attempt(written, lambda: written.paths.append(f"/run/netns/{netns_encoding.name(name)}"))  # noqa: B023
    if desired.bird is not None:
        written.bird, refused = _rendered(desired.bird)
        written.refused += refused
        names = dict.fromkeys(desired.bird.secrets, "secret")
        written.secrets = _attempt(written, lambda: passwords.to_text(names)) or ""


@functools.lru_cache(maxsize=16)
def _rendered(bird: Bird) -> tuple[str, tuple[str, ...]]:
    """Return bird.cfg and (), or "" and the reason why it is refused; most states that are tried have the same Bird."""
    written = Written()
    text = _attempt(written, lambda: bird_config.render(NodeState("n", "", bird=bird).to_dict()["bird"]))
    return text or "", tuple(written.refused)


def write_firewall(kernel: t.Any, desired: NodeState, written: Written) -> None:
    """Apply the sets and rules of a state by their drivers.

    Add the plan's line of each change, also of a refused one, to `written.lines`, and reasons of refusals to
    `written.refused`. A driver that cannot plan (ValueError, KeyError) writes nothing: its error is a reason, too.
    """
    for driver, wanted in ((ipset, desired.ipsets), (iptables, desired.iptables)):
        changes = _attempt(written, lambda: driver.diff(wanted, driver.observe(kernel, wanted)))  # noqa: B023
        if changes is None:
            continue
        written.lines += [change.line() for change in changes]
        written.refused += [change.note for change in changes if change.action in "=!"]
        try:
            driver.apply(kernel, changes)
        except ApplyError as error:
            written.refused += [reason for _change, reason in error.failures]


def _sysctls(desired: NodeState, written: Written) -> None:
    for change in sysctl.diff(desired.sysctls, sysctl.observe(FakeKernel(), desired.sysctls)):
        if change.action == "!":
            written.refused.append(change.note)
        else:
            written.paths.append(sysctl_encoding.path(change.new[0].key))
        written.lines.append(change.line())


_T = t.TypeVar("_T")


def _attempt(written: Written, work: t.Callable[[], _T]) -> t.Optional[_T]:
    try:
        return work()
    except (ValueError, KeyError, jinja2.UndefinedError) as error:
        written.refused.append(str(error))
        return None
