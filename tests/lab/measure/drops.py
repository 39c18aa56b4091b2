# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's counters of dropped packets in a lab, and the causes of lost packets that follow from them.

Counters are {place and name: packets}. A place is a host, a named namespace of a host ("node1/web-1"), "router", or
"machine" for what the kernel counts over all namespaces together. Another lab on the same kernel adds to the latter.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping

from ..handle import BaseLab
from ..topology import LabError

#: The cause that excuses a loss in every lab: the receiving program was too slow for its stream.
BUFFER = ("socket buffer",)
#: The causes that excuse a loss in the emulated machine, which can be too slow for the traffic at every place.
OVERLOAD = (*BUFFER, "backlog", "ring", "replaced route")

_PER_CPU = "/proc/net/softnet_stat /proc/net/stat/rt_cache /proc/net/stat/arp_cache"
#: The emulated machine counts here, by function, where its kernel discards packets. Other machines have no such file.
_DISCARDS = "/sys/kernel/tracing/events/skb/kfree_skb/hist"
_PER_NAMESPACE = "cat /proc/net/snmp /proc/net/netstat /proc/net/dev"
#: Counters of /proc/net/snmp and netstat that say why the kernel dropped a packet of IPv4 or UDP.
_DROPPED = re.compile(
    r"(Ip|Udp|IpExt|TcpExt)\.(In\w*Errors|InDiscards|OutDiscards|\w+NoRoutes|InUnknownProtos|ReasmFails|FragFails"
    r"|RcvbufErrors|SndbufErrors|NoPorts|InTruncatedPkts|IPReversePathFilter)"
)
#: The columns of a device in /proc/net/dev that are of interest.
_DEVICE = {2: "rx errors", 3: "rx dropped", 4: "rx fifo", 10: "tx errors", 11: "tx dropped"}


def read(lab: BaseLab, namespaces: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return the counters of the machine, of the router, and of the hosts and their named namespaces in `namespaces`.

    A host that is off or does not answer, and a namespace that does not exist, have no counters.
    """
    # Only the kernel's first network namespace shows arp_cache. A machine in a sandbox may not enter that of process 1.
    enter = "nsenter --target 1 --net"
    files = f"{_PER_CPU} {_DISCARDS}"
    found = per_cpu(_said(lab, "machine", f"{enter} true && enter='{enter}'; $enter head -n 999 {files}"))
    for host in ("router", *namespaces):
        script = f"echo '@@ {host}'; {_PER_NAMESPACE}; iptables-save -c; "
        for netns in namespaces.get(host, ()):
            inside = f"nsenter --net=/run/netns/{shlex.quote(netns)} sh -c '{_PER_NAMESPACE}'"
            script += f"echo '@@ {host}/{netns}'; {inside}; "
        for part in _said(lab, host, script).split("@@ ")[1:]:
            place, _, text = part.partition("\n")
            found.update({f"{place} {name}": value for name, value in _in_namespace(text).items()})
    return found


def _said(lab: BaseLab, where: str, script: str) -> str:
    try:
        said: str = lab.exec(where, f"{{ {script.rstrip('; ')}; }} 2>/dev/null", check=False).stdout
    except LabError:
        return ""
    return said


def per_cpu(text: str) -> dict[str, int]:
    """Return sums over all processors of drops by full queues, missing or replaced routes and unresolved neighbours.

    `text` has the files of _PER_CPU and _DISCARDS with their names, as `head` prints them. Other counters in them are
    left out.
    """
    found: Counter[str] = Counter()
    for part in text.split("==> ")[1:]:
        lines = part.splitlines()
        if _DISCARDS in lines[0]:
            hits = re.findall(r"\] dst_discard(?:_out)? +\} hitcount: +(\d+)", part)
            found["machine dst_discard"] += sum(map(int, hits))
            continue
        if "softnet_stat" in lines[0]:
            # The second column is the number of packets for which a queue between devices was full.
            found["machine backlog"] += sum(int(line.split()[1], 16) for line in lines[1:] if line)
            continue
        names = lines[1].split()
        for line in filter(None, lines[2:]):
            for name, value in zip(names, line.split()):
                if name in ("in_no_route", "res_failed", "unresolved_discards"):
                    found[f"machine {name}"] += int(value, 16)
    return dict(found)


def _in_namespace(text: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    names: list[str] = []
    chain = ""
    for line in text.splitlines():
        device = re.match(r" *([^ :|]+): *((?:\d+ +){15}\d+) *$", line)
        rule = re.match(r"\[(\d+):\d+\] (-A .* -j (?:DROP|REJECT)\b.*)", line)
        policy = re.match(r":(\S+ DROP) \[(\d+):\d+\]", line)
        if device:
            values = device.group(2).split()
            found.update({f"{device.group(1)} {name}": int(values[at]) for at, name in _DEVICE.items()})
        elif rule:
            found[f"{chain} {rule.group(2)}"] += int(rule.group(1))
        elif policy:
            found[f"{chain} :{policy.group(1)}"] += int(policy.group(2))
        elif line.startswith("*"):
            chain = line
        elif re.match(r"\w+: ", line):
            protocol, *values = line.split()
            if not values[0].lstrip("-").isdigit():
                names = values
                continue
            for name, value in zip(names, values):
                if _DROPPED.fullmatch(protocol[:-1] + "." + name):
                    found[protocol[:-1] + "." + name] += int(value)
    return dict(found)


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return by how much each counter of `after` grew, without those that did not.

    A counter that is lower than before began anew meanwhile, with its device, rule or host: it grew from 0.
    """
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    return {name: after[name] if more < 0 else more for name, more in grown.items() if more and after[name]}


def causes(lost: int, buffer_drops: int, unroutable: int, grown: Mapping[str, int]) -> dict[str, int]:
    """Return {cause: packets} of `lost` packets, which it adds up to; causes without a packet are left out.

    `buffer_drops` are drops of the receiving sockets, `unroutable` the packets that a sender's own kernel refused for
    lack of a route. `grown` are the counters from `growth`; they also count packets of others. Therefore causes that
    excuse nothing come next after `buffer_drops`: overload gets only what no other counter claims. What no counter
    claims is "unknown", or "neighbour" if the resolution of one failed, because the kernel does not count all packets
    that waited for it. If `lost` is not above 0, the result is {}.
    """

    def total(pattern: str) -> int:
        return sum(value for name, value in grown.items() if re.search(pattern, name))

    unsent = total(" tx dropped$")
    neighbours = total(r"^machine (res_failed|unresolved_discards)$")
    counted = [
        # Unlike the others, these are packets of the streams alone.
        ("socket buffer", buffer_drops),
        ("no route", unroutable),
        # These are counted for this lab alone, the next two for all labs of this kernel.
        ("policy", total(r" \*\w+ (-A|:)| TcpExt\.IPReversePathFilter$")),
        ("no route", total("^machine in_no_route$")),
        ("neighbour", neighbours),
        # A full queue is counted for all labs of this kernel, and by the veth that sends to it. The latter also counts
        # packets to a peer that is down: if it counts more than the machine, nothing tells these apart.
        ("backlog", unsent if unsent <= total("^machine backlog$") else 0),
        ("ring", total(" rx fifo$")),
        # A program that is preempted between a packet's route lookup and its output for longer than the kernel keeps a
        # replaced route (an RCU grace period) has its packet discarded: dst_dev_put() of net/core/dst.c.
        ("replaced route", total("^machine dst_discard$")),
    ]
    found: Counter[str] = Counter()
    rest = max(0, lost)
    for cause, packets in counted:
        found[cause] += min(rest, packets)
        rest -= min(rest, packets)
    found["neighbour" if neighbours else "unknown"] += rest
    return {cause: packets for cause, packets in found.items() if packets}
