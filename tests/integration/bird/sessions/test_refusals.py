# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests with real BIRDs of the explanation for every reason why a session is not up.

All pairs of a release start together, because most of the time is spent on retries and timers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, BirdPeer

from tests.integration.bird.daemons import Daemon
from tests.integration.bird.debian_bird import Build, debian_bird
from tests.integration.bird.network import wait_for
from tests.integration.bird.routes.pair import NODE, NODE6, ROUTER, ROUTER6, SECRET, Pair, bird, tor

pytestmark = pytest.mark.root

CHANNEL = "ipv4 { import all; export none; };"


def router(
    options: str = "",
    as_number: int = 65001,
    neighbor: str = f"{NODE} as 64512",
    address: str = ROUTER,
    channel: str = CHANNEL,
    router_id: str = ROUTER,
    hop: str = "direct",
) -> str:
    """Return the text of the router's configuration, with one session to the node.

    It runs from `address` in AS `as_number`. `neighbor` is the node's address and AS number, `hop` is `direct` or
    `multihop`, and `channel` is BIRD's text of the session's channel. `options` is added to the session.
    """
    return (
        f"router id {router_id};\nlog stderr all;\nprotocol device {{}}\nprotocol bfd {{}}\n"
        f"protocol bgp node {{ local {address} as {as_number}; neighbor {neighbor}; {hop}; connect delay time 1; "
        f"connect retry time 2; error wait time 1, 5; hold time 9; keepalive time 3; {options} {channel} }}\n"
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A session that is not up.

    `peer` is the node's side, and `router` the configuration of the other side, None for no BIRD there. `reason` is the
    beginning of the explanation. `password` is that of the node's side, "" for none. `then` runs once the session is
    up, and takes it down.
    """

    peer: BirdPeer
    router: t.Optional[str]
    reason: str
    password: str = ""
    then: t.Optional[t.Callable[[Pair], t.Any]] = None


def deaf(pair: Pair) -> None:
    pair.node.run("iptables", "-A", "INPUT", "-j", "DROP")


def shut_down(pair: Pair) -> None:
    Router.of[pair].birdc("disable", "node")


CASES = {
    "another password": Case(
        tor(password=SECRET),
        router('password "another";'),
        "most likely the passwords differ: the kernel just dropped ",
        password="ours",
    ),
    "another password, IPv6": Case(
        tor(address=ROUTER6, family=6, password=SECRET),
        router(
            'password "another";',
            address=ROUTER6,
            neighbor=f"{NODE6} as 64512",
            channel="ipv6 { import all; export none; };",
        ),
        "most likely the passwords differ: the kernel just dropped ",
        password="ours",
    ),
    "another password, waiting": Case(
        tor(password=SECRET, passive=True),
        router('password "another";'),
        "most likely the passwords differ: the kernel just dropped ",
        password="ours",
    ),
    "a password here alone": Case(
        tor(password=SECRET), router(), "most likely the peer has no password for it: ", password="ours"
    ),
    "a password there alone": Case(
        tor(), router('password "theirs";'), "most likely the peer has a password for it, and none is set here: "
    ),
    "another AS than theirs": Case(tor(as_number=65009), router(), "the peer is in another AS than 65009. "),
    "another AS than ours": Case(
        tor(),
        router(neighbor=f"{NODE} as 64599"),
        "the peer refuses AS 64512 of this node: it has another one for its neighbor 10.9.0.1. ",
    ),
    "TTL security here alone": Case(
        tor(ttl_security=1), router(hop="multihop"), "most likely the peer has no TTL security, or is more than 1 hop"
    ),
    "the same router id": Case(
        tor(as_number=64512),
        router(as_number=64512, router_id=NODE),
        "the router id of the peer is that of this node, 10.9.0.1, or none. ",
    ),
    "nobody there": Case(tor(address="10.9.0.77"), None, "nobody answers for 10.9.0.77 in its subnet, or a router "),
    "port closed": Case(tor(), None, "nobody listens at 10.9.0.2 port 179. "),
    "another port": Case(tor(port=1179), router("passive on;"), "nobody listens at 10.9.0.2 port 1179. "),
    "not a neighbor there": Case(
        tor(), router(neighbor="10.9.0.99 as 64512"), "10.9.0.2 port 179 takes connections and closes them at once. "
    ),
    "no subnet": Case(tor(address="10.77.0.2"), None, "no interface that is up has a subnet with 10.77.0.2 in it. "),
    "no route": Case(tor(address="10.77.0.2", multihop=True), None, "this node has no route to 10.77.0.2. "),
    "another family": Case(
        tor(),
        router(channel="ipv6 { import all; export none; };"),
        "the peer does not carry IPv4 routes in it. ",
    ),
    "both wait": Case(tor(passive=True), router("passive on;"), "the peer has not connected from 10.9.0.2. Possible"),
    "silent": Case(tor(), router(), "nothing was heard of the peer for 9 s, the hold time, and it has not", then=deaf),
    "BFD": Case(
        tor(bfd=Bfd(100, 100, 3)),
        router("bfd on;"),
        "BFD heard nothing of the peer within 300 ms: it, or the way to it, is down, ",
        then=deaf,
    ),
    "link down": Case(
        tor(), router(), "the interface towards 10.9.0.2 is down or lost its address. ",
        then=lambda pair: pair.router.ip("link set eth0 down"),
    ),
    "shut down there": Case(
        tor(), router(), "it was shut down at the peer by its operator. Enable the neighbor 10.9.0.1 there.",
        then=shut_down,
    ),
    "shut down here": Case(
        tor(), router(), "it was switched off by hand on this node. `birdc -s /run/calico/bird.ctl enable Global_10_",
        then=lambda pair: pair.daemon.birdc("disable", "Global_10_9_0_2"),
    ),
}  # fmt: skip
#: Cases in which BIRD shows the reason for a moment only, so that the test must look for it at once.
PASSING = ("shut down there",)


class Router(Daemon):
    """The far side's BIRD."""

    of: t.ClassVar[dict[Pair, Router]] = {}

    def __init__(self, pair: Pair, text: str) -> None:
        super().__init__(pair.daemon.build, pair.router, pair.folder, "router")
        self.config.write_text(text)
        self.of[pair] = self
        pair.until_closed(self.stop)


# Only the oldest and the newest of three releases run, because each takes long. BIRD 2.17, the one between, gives its
# reasons in the same words.
@pytest.fixture(scope="module", params=["bookworm", "forky"])
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[dict[str, Pair]]:
    build: Build = debian_bird(request.param)
    with contextlib.ExitStack() as stack:
        made: dict[str, Pair] = {}
        for number, (name, case) in enumerate(CASES.items()):
            pair = made[name] = Pair(build, tmp_path_factory.mktemp(f"pair{number}"))
            stack.callback(pair.close)
            if case.router is not None:
                Router(pair, case.router).start()
            pair.start(bird(case.peer), **({"tor": case.password} if case.password else {}))
        for name, case in CASES.items():
            if case.then is not None and name not in PASSING:
                made[name].established()
                case.then(made[name])
        yield made


@pytest.mark.parametrize("name", [*CASES])
def test_a_session_that_is_down_names_its_reason(pairs: dict[str, Pair], name: str) -> None:
    pair, case = pairs[name], CASES[name]
    if name in PASSING and case.then is not None:
        pair.established()
        case.then(pair)
    said: list[str] = []

    def found() -> bool:
        said.append(pair.why())
        return said[-1].startswith(case.reason)

    step = time.monotonic()
    try:
        wait_for(f"{case.reason!r}", found, most=0.05)
    except AssertionError as error:
        raise AssertionError(f"{error}; said {dict.fromkeys(said)}, {pair.session()}") from None
    print(f"BIRD {pair.daemon.build.version}: {name} after {time.monotonic() - step:.1f} s: {said[-1]}")


def test_an_established_session_has_no_reason(pairs: dict[str, Pair], tmp_path_factory) -> None:
    build = next(iter(pairs.values())).daemon.build
    pair = Pair(build, tmp_path_factory.mktemp("good"))
    try:
        Router(pair, router('password "ours"; ttl security on;')).start()
        pair.start(bird(tor(password=SECRET, ttl_security=1)), tor="ours")
        pair.established()
        assert pair.why() == ""
        # `birdc configure` does not restart the session while the password is the same, and restarts it after a change.
        before = wait_for("the block is announced", lambda: (found := pair.session()) and found.exported and found)
        pair.daemon.configure()
        assert pair.session() == before
        (pair.folder / "bird.secrets.conf").write_text(
            (pair.folder / "bird.secrets.conf").read_text().replace('"ours"', '"other"')
        )
        pair.daemon.configure()
        wait_for("passwords", lambda: pair.why().startswith("most likely the passwords differ"), most=0.05)
    finally:
        pair.close()
