# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy drops`: the packets that policy dropped on this node lately, as the kernel logged them."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time

from ...base import terminal_text
from ...policy.chains.rules import log_prefix
from ..errors import DONE, UsageError
from ..render import structured, tables
from ..sources import Data, Sources
from .workloads import identity

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_HEADING = ("LAST (UTC)", "PACKETS", "VERDICT", "DIRECTION", "DECIDED BY", "FROM", "TO", "PORT")
_WIDE = (*_HEADING, "SOURCE", "SPORT", "DESTINATION", "IN", "OUT", "FIRST (UTC)")
#: Widths of the columns of _WIDE in characters, for output that begins before all rows are known.
_WIDTHS = (22, 10, 13, 12, 32, 24, 24, 11, 18, 8, 18, 18, 18, 22)
_EACH = 1.0  # seconds between two requests to the agent

_HOST = {
    log_prefix.UNKNOWN_INTERFACE: "host: unknown workload",
    log_prefix.SPOOFED: "host: forged address",
    log_prefix.INVALID_STATE: "host: of no connection",
    log_prefix.ENCAPSULATION: "host: encapsulated",
    log_prefix.ENDPOINT_TO_HOST: "host: workload to host",
    log_prefix.ETCD: "host: workload to etcd",
    log_prefix.PROBE_ENDPOINT: "host: no probe",
    log_prefix.CUT: "a new policy, which cut it",
}


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    asked: Data = {}
    if arguments.workload is not None:
        if not arguments.workload:
            raise UsageError("--workload '' is no workload. Write it as web or default/web.")
        asked["workload"] = identity("default", arguments.workload)
    if arguments.since is not None:
        asked["since"] = _seconds(arguments.since)
    answer = sources.agent.ask("policy.drops", **asked)
    if arguments.follow:
        _say(answer, "")
        _follow(arguments, sources, asked, answer)
    elif not structured.written(arguments.output, answer):
        if answer["drops"]:
            wide = arguments.output == "wide"
            rows = [_row(drop, wide) for drop in answer["drops"]]
            sys.stdout.write(tables.columns(_WIDE if wide else _HEADING, rows))
        _say(answer, "Nothing that this asks for was dropped or logged since the agent started.\n")
    return DONE


def _say(answer: Data, nothing: str) -> None:
    """Print to stderr why an answer may be incomplete; `nothing` is for an empty one that has no other reason."""
    if not answer["policy"]:
        sys.stderr.write("This node has no policy, so none drops anything.\n")
    elif not answer["wanted_group"]:
        sys.stderr.write("Nothing is logged on this node: calico_policy_log_group is 0.\n")
    elif not answer["group"]:
        sys.stderr.write("The agent does not hear what is dropped now. `calicoctl status` says why.\n")
    elif not answer["drops"]:
        sys.stderr.write(nothing)
    for field, words in (
        ("lost", "there were more at once than can be read"),
        ("unlisted", "there were too many flows at once; metrics count them"),
    ):
        if answer[field]:
            sys.stderr.write(f"! {answer[field]} packets are not shown: {words}\n")


def _follow(arguments: argparse.Namespace, sources: Sources, asked: Data, answer: Data) -> None:
    """Print the drops in `answer`, then every second those with new packets, until interrupted."""
    as_json, wide = arguments.output == "json", arguments.output == "wide"
    try:
        if not as_json:
            sys.stdout.write(_line(_WIDE if wide else _HEADING))
        while True:
            for drop in answer["drops"]:
                sys.stdout.write(json.dumps(drop) + "\n" if as_json else _line(_row(drop, wide)))
            sys.stdout.flush()
            time.sleep(_EACH)
            answer = sources.agent.ask("policy.drops", **{**asked, "after": answer["next"]})
    except KeyboardInterrupt:
        pass


def _line(cells: tables.Row) -> str:
    return " ".join(terminal_text.line(cell).ljust(width - 1) for cell, width in zip(cells, _WIDTHS)).rstrip() + "\n"


def _seconds(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise UsageError(f"--since {text} is not a time. Write it as 90s, 5m, 2h or 1d.")
    return int(found.group(1)) * _UNITS[found.group(2)]


def _row(drop: Data, wide: bool) -> tuple[str, ...]:
    source, destination = drop["source"], drop["destination"]
    row: tuple[str, ...] = (
        _time(drop["last"]) if wide else _time(drop["last"])[len("2026-") :],
        str(drop["packets"]),
        drop["verdict"],
        drop["direction"].lower(),
        decided_by(drop),
        source["workload"] or source["node"] or source["address"],
        destination["workload"] or destination["node"] or destination["address"],
        _port(drop),
    )
    if wide:
        port = drop["source_port"]
        more = (source["address"], "-" if port is None else str(port), destination["address"])
        row += (*more, drop["in_interface"] or "-", drop["out_interface"] or "-", _time(drop["first"]))
    return row


def _time(text: str) -> str:
    return text.replace("T", " ").rstrip("Z")


def _port(drop: Data) -> str:
    """Return port or ICMP type, and protocol, as `5432/tcp` or `8/icmp`; without port and type, the protocol alone."""
    number = drop["icmp_type"] if drop["destination_port"] is None else drop["destination_port"]
    protocol: str = drop["protocol"]
    return protocol if number is None else f"{number}/{protocol}"


def decided_by(drop: Data) -> str:
    """Return what decided: `web#2` (a policy's second rule), `default of tier platform`, a profile, or the host."""
    kind, name, rule = drop["kind"], drop["name"], drop["rule"]
    if kind == log_prefix.POLICY:
        return f"{name}#{rule}"
    if kind == log_prefix.TIER:
        return f"default of tier {drop['tier']}"
    if kind == log_prefix.PROFILE:
        return f"profile {name}#{rule}" if rule else f"no such profile: {name}"
    if kind == log_prefix.NO_PROFILE:
        return "no profile allows it"
    return _HOST.get(name, f"host: {name}")
