# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the command line: all commands with their options."""

from __future__ import annotations

import typing as t

from ..base.release import VERSION
from .command_parser import Parser
from .commands import (
    agent_status,
    diagnostics,
    get,
    ipam,
    node_status,
    policy_drops,
    policy_explain,
    scale,
    system_check,
    validate,
    version,
    workloads,
)
from .commands.refused import refusal
from .errors import MISUNDERSTOOD
from .flow import flow_question

_EPILOG = "Exit status: 0 done, 1 problems were found or it failed, 2 the command line was not understood."


def build(program: str = "calicoctl") -> Parser:
    """Return the parser. Parsed arguments have `run`, the command's function: (arguments, sources) -> exit status.

    Those of a verb of refusal.VERBS and of `help` have none: these are in the parser for their help alone. `of_node` is
    whether the command is about the node that it runs on, unless it has an `inventory`. `program` is the program's name
    in help and errors.
    """
    parser = Parser(
        prog=program,
        description="Look at this node of the fleet, and at the workloads on it. What it is to have is said by the\n"
        "Ansible inventory: commands that change it in Calico say here which variable to edit.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--version", action="version", version=f"{program} {VERSION}", help="show the version of this program"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    _get(commands)
    _node(commands)
    _ipam(commands)
    _workload(commands)
    _policy(commands)
    _agent(commands)
    _files(commands)
    _scale(commands)
    _refused(commands)
    return parser


def _command(commands: t.Any, name: str, run: t.Any, help: str, text: str = "", of_node: bool = True) -> Parser:
    """Add a command. `run` is its function, None for one that is only parsed for its help. `of_node`: see `build`."""
    description = text or f"{help[:1].upper()}{help[1:]}."
    made: Parser = commands.add_parser(name, help=help, description=description, epilog=_EPILOG)
    if run:
        made.set_defaults(run=run, of_node=of_node)
    return made


def _group(commands: t.Any, name: str, help: str) -> t.Any:
    made = _command(commands, name, None, help)
    return made.add_subparsers(title="commands", metavar="COMMAND", required=True, dest=f"{name}_command")


def _output(parser: Parser, *words: str) -> None:
    parser.add_argument("-o", "--output", choices=words, default=words[0], metavar="FORMAT", help=" or ".join(words))


def _get(commands: t.Any) -> None:
    parser = _command(
        commands,
        "get",
        get.run,
        "show resources",
        "Show resources: nodes, ippools, bgppeers, bgpfilters, bgpconfigurations, ipreservations, workloadendpoints,\n"
        "and those of policy: globalnetworkpolicies, networkpolicies, both also staged, tiers, profiles,\n"
        "globalnetworksets, networksets, hostendpoints.",
    )
    parser.add_argument("kind", metavar="KIND", nargs="?", help="as ippools, ippool, pool")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    parser.add_argument(
        "-o", "--output", default="ps", metavar="FORMAT", help="ps, wide, yaml, json or custom-columns=NAME,..."
    )
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="of what is in one; 'default' by default")
    parser.add_argument("-A", "-a", "--all-namespaces", action="store_true", help="what is in any of them")
    _files_of_resources(parser)
    parser.add_argument("--export", action="store_true", help="changes nothing: documents have nothing of the cluster")
    _inventory(parser)


def _node(commands: t.Any) -> None:
    group = _group(commands, "node", "this node: its BGP sessions, its files, its kernel")
    parser = _command(
        group, "status", node_status.run, "show the BGP sessions",
        "Show the BGP sessions of this node. The exit status is 0 only if all of them are up.",
    )  # fmt: skip
    _output(parser, "text", "json")
    parser = _command(
        group, "diags", diagnostics.run, "gather what helps to find a fault",
        "Gather what helps to find a fault into diags-DATE_TIME.tar.gz, for root's eyes alone. Passwords are left out.",
    )  # fmt: skip
    parser.add_argument("--log-dir", default=".", metavar="FOLDER", help="where to put it (by default here)")
    _command(group, "checksystem", system_check.run, "tell if this host can be a node", of_node=False)


def _ipam(commands: t.Any) -> None:
    group = _group(commands, "ipam", "the addresses of this node's blocks")
    parser = _command(group, "show", ipam.show, "show how many addresses are in use")
    parser.add_argument("--show-blocks", action="store_true", help="each block, too")
    parser.add_argument("--ip", metavar="ADDRESS", help="who has this address")
    parser.add_argument("--show-configuration", action="store_true", help="how addresses are given out")
    _inventory(parser)
    _output(parser, "text", "json")
    parser = _command(
        group, "check", ipam.check, "look for addresses that leaked or are used twice",
        "Compare allocations with workloads and blocks. The exit status is 1 if anything is wrong.",
    )  # fmt: skip
    _output(parser, "text", "json")
    parser = _command(group, "release", ipam.release, "free an address that leaked: one that nothing uses")
    parser.add_argument("--ip", metavar="ADDRESS", required=True)


def _workload(commands: t.Any) -> None:
    group = _group(commands, "workload", "workloads that come and go between runs of Ansible")
    parser = _command(group, "add", workloads.add, "join a network namespace to the fleet's network")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-n", "--namespace", default="default", help="Calico's namespace, a part of the name")
    parser.add_argument("--netns", metavar="NETNS", help="name, made if it is missing, or path; by default NAME")
    parser.add_argument("--pid", type=int, metavar="PID", help="the network namespace of this process")
    parser.add_argument("--interface", default="eth0", metavar="DEVICE", help="its name inside (eth0)")
    parser.add_argument("--address", metavar="ADDRESS", help="this IPv4 address; by default any that is free")
    parser.add_argument("--address6", metavar="ADDRESS", help="this IPv6 address; by default any that is free")
    parser.add_argument(
        "--family", action="append", type=int, default=[], choices=(4, 6), help="of this IP version; may be repeated"
    )
    parser.add_argument("--pool", action="append", default=[], metavar="POOL", help="out of this pool; may be repeated")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("--mac", metavar="MAC", help="of the interface inside")
    parser.add_argument("--mtu", type=int, metavar="BYTES", help="if smaller than that of the pool")
    parser.add_argument(
        "--publish", action="append", default=[], metavar="PORT",
        help="a port of the host that leads to it: [ADDRESS:]HOSTPORT:PORT[/PROTOCOL]; may be repeated",
    )  # fmt: skip
    _output(parser, "text", "json", "yaml")
    for name in ("del", "delete"):
        parser = _command(group, name, workloads.delete, "take workloads away and free their addresses")
        parser.add_argument("names", metavar="NAME", nargs="+")
        parser.add_argument("-n", "--namespace", default="default")
    parser = _command(
        group, "label", workloads.label, "change the labels of a workload, which policy asks; it stays attached"
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("labels", metavar="LABEL", nargs="+", help="KEY=VALUE, or KEY- to take it away")
    parser.add_argument("-n", "--namespace", default="default")
    _output(parser, "text", "json", "yaml")
    for name, run, help in (
        ("get", workloads.get, "show all of one workload"),
        ("check", workloads.check, "tell if a workload is as it is to be; exit status 1 if not"),
    ):
        parser = _command(group, name, run, help)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("-n", "--namespace", default="default")
        _output(parser, "text", "wide", "json", "yaml")
    parser = _command(group, "list", workloads.show, "show all workloads of this node")
    _output(parser, "text", "wide", "json", "yaml")


def _policy(commands: t.Any) -> None:
    group = _group(commands, "policy", "what policy makes of a packet")
    parser = _command(
        group, "explain", policy_explain.run, "tell if a flow is allowed, who decides, and by which way it goes",
        "Tell if a flow is allowed, who decides, what was tried before, and by which way it goes. It is worked out\n"
        "from what this node has, or from an inventory; nothing is sent. The exit status is 0 if it is allowed, 1 if\n"
        "it is denied, 2 if there is no answer.",
    )  # fmt: skip
    for option, dest in (("--from", "source"), ("--to", "destination")):
        parser.add_argument(
            option, dest=dest, metavar="WHO", required=True, help="a workload (default/web, web), a node or an address"
        )
    parser.add_argument(
        "--port", metavar="PORT/PROTOCOL", required=True, help="5432/tcp, 53/udp, icmp (a ping), 3/icmp (another type)"
    )
    parser.add_argument(
        "--source-port", type=int, default=flow_question.SOURCE_PORT, metavar="PORT",
        help=f"that it is sent from ({flow_question.SOURCE_PORT}, as good as any that a kernel chooses)",
    )  # fmt: skip
    _inventory(parser)
    parser.add_argument(
        "-v", "--verbose", "--all", dest="all", action="store_true",
        help="name policies that do not apply, too, and say why",
    )  # fmt: skip
    parser.set_defaults(failure=MISUNDERSTOOD)
    _output(parser, "text", "json")
    parser = _command(
        group, "drops", policy_drops.run, "show what policy dropped here lately",
        "Show what policy dropped on this node lately, would drop if it were not staged or the node in audit mode, or\n"
        "was told to log. Packets between the same two to the same port are one line; the latest comes last.",
    )  # fmt: skip
    parser.add_argument("--workload", metavar="WHO", help="from or to this one: web, default/web")
    parser.add_argument("--since", metavar="TIME", help="not longer ago than 90s, 5m, 2h or 1d")
    parser.add_argument("--follow", action="store_true", help="go on, and show each flow again that has new packets")
    _output(parser, "text", "wide", "json")


def _agent(commands: t.Any) -> None:
    for name, run, help in (
        ("status", agent_status.status, "tell if the agent has the node as it is to be; exit status 1 if not"),
        ("resync", agent_status.resync, "let the agent look at everything now and repair what differs"),
        ("plan", agent_status.plan, "show what the agent would repair"),
    ):
        _output(_command(commands, name, run, help), "text", "json")
    about = "show the version of this program and of the agent"
    parser = _command(commands, "version", version.run, about, of_node=False)
    parser.add_argument("--client", action="store_true", help="of this program alone")
    parser = _command(commands, "help", None, "show the commands, or the help of one")
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="as ipam show")


def _files(commands: t.Any) -> None:
    parser = _command(
        commands, "validate", validate.run, "check files of resources, or an inventory",
        "Check files of resources (projectcalico.org/v3, YAML or JSON); or, on the controller, a whole inventory:\n"
        "what in it cannot be, does not work, breaks easily or is hardly meant. Nothing is applied.", of_node=False,
    )  # fmt: skip
    _files_of_resources(parser)
    _inventory(parser)
    parser.add_argument("--strict", action="store_true", help="of an inventory: warnings make the exit status 1, too")
    _output(parser, "text", "json")


def _files_of_resources(parser: t.Any) -> None:
    parser.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE", help="file, folder or - ; may be repeated"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="with the folders in a folder")


def _inventory(parser: t.Any) -> None:
    parser.add_argument(
        "-i", "--inventory", action="append", default=[], metavar="INVENTORY",
        help="on the controller: ask this inventory, as ansible-playbook -i takes it; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--vault-password-file",
        default="",
        metavar="FILE",
        help="of an inventory: decrypt it with this file's password",
    )


def _scale(commands: t.Any) -> None:
    parser = _command(
        commands, "scale", scale.run, "tell what BGP costs in fleets of a size, or of an inventory",
        "Tell what BGP costs in fleets of some sizes, in a mesh and behind route reflectors: sessions, paths, routes\n"
        "that are announced at a start from nothing and for one new block in the whole fleet, and BIRD's memory.\n"
        "Nodes are alike there, and no node is asked. With -i, on the controller, it is the fleet of that inventory\n"
        "as it is; hosts may be down.", of_node=False,
    )  # fmt: skip
    parser.add_argument("sizes", metavar="NODES", nargs="*", type=int, help="as 200; by default 100 to 5000")
    parser.add_argument("--reflectors", type=int, metavar="COUNT", help=f"route reflectors ({scale.REFLECTORS})")
    parser.add_argument("--blocks", type=int, metavar="COUNT", help=f"blocks of each node ({scale.BLOCKS})")
    _inventory(parser)
    _output(parser, "text", "json")


def _refused(commands: t.Any) -> None:
    """Add Calico's verbs that change resources, for the help: `command.main` parses them only with -h or --help."""
    for verb in refusal.VERBS:
        parser = _command(commands, verb, None, "say which variable of the inventory to edit instead")
        parser.add_argument("kind", metavar="KIND", nargs="?", help="or -f FILE")
