# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the command line: all commands with their options.

A command's module is imported when the command runs, because the modules of all commands take most of a call's time.
"""

from __future__ import annotations

import typing as t

from ..base.release import VERSION
from .command_parser import Parser
from .commands.refused.absent import VERBS
from .defaults import BLOCKS, MOST_TRIAL, REFLECTORS, SOURCE_PORT
from .errors import MISUNDERSTOOD

_OF_CHANGES = {
    "apply": "Create resources, or replace those that exist.",
    "create": "Create resources. One that exists is an error.",
    "replace": "Replace resources. One that does not exist is an error.",
    "delete": "Delete resources, by -f or by KIND and names. One that does not exist is an error.",
    "patch": "Change fields of one resource.",
    "label": "Set or remove a label of one resource.",
}
#: The function of commands about live policy, which `command.main` is given.
LIVE = "live"
_EPILOG = "Exit status: 0 done, 1 problems were found or it failed, 2 the command line was not understood."


def build(program: str = "calicoctl", command: t.Optional[str] = None) -> Parser:
    """Return the parser. Parsed arguments have `run`, the name of the command's function in the folder `commands`.

    With `command`, all other commands are only listed, because building all takes longer than running one.

    The function is (arguments, sources) -> exit status. Without `run`, a command is parsed for its help alone.
    `of_node` is whether the command is about the node that it runs on, unless it has an `inventory`. `program` is the
    program's name in help and errors.
    """
    parser = Parser(
        prog=program,
        description="Show and check this node of the fleet and its workloads. The Ansible inventory is the source of\n"
        "truth: commands that change resources change its files (-i), or live policy.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--version", action="version", version=f"{program} {VERSION}", help="show the version of this program"
    )

    def made(prog: str, **named: t.Any) -> t.Union[Parser, _ListedCommand]:
        return Parser(prog, **named) if command in (None, prog.rpartition(" ")[2]) else _ListedCommand(prog)

    commands = parser.add_subparsers(
        title="commands",
        prog=program,
        metavar="COMMAND",
        required=True,
        dest="command",
        parser_class=t.cast(t.Any, made),
    )
    for add in (_get, _node, _ipam, _workload, _policy, _agent, _files, _migration, _scale, _shell, _changes, _live):
        add(commands)
    return parser


class _ListedCommand:
    """A command that the help lists and nobody parses. It takes the place of a Parser, and ignores what is added.

    It ignores every other call as well: argparse itself makes some, Python 3.14's more than 3.11's.
    """

    def __init__(self, prog: str) -> None:
        self.prog = prog

    def _ignore(self, *dummy: t.Any, **named: t.Any) -> _ListedCommand:
        return self

    def __getattr__(self, name: str) -> t.Callable[..., _ListedCommand]:
        return self._ignore


def _command(commands: t.Any, name: str, run: str, help: str, text: str = "", of_node: bool = True) -> Parser:
    """Add a command. `run` names its function, "" for one that is only parsed for its help. `of_node`: see `build`."""
    description = text or f"{help[:1].upper()}{help[1:]}."
    made: Parser = commands.add_parser(name, help=help, description=description, epilog=_EPILOG)
    if run:
        made.set_defaults(run=run, of_node=of_node)
    return made


def _group(commands: t.Any, name: str, help: str) -> t.Any:
    made = _command(commands, name, "", help)
    return made.add_subparsers(
        title="commands", prog=made.prog, metavar="COMMAND", required=True, dest=f"{name}_command"
    )


def _output(parser: Parser, *words: str) -> None:
    parser.add_argument("-o", "--output", choices=words, default=words[0], metavar="FORMAT", help=" or ".join(words))


def _get(commands: t.Any) -> None:
    parser = _command(
        commands,
        "get",
        "get.run",
        "show resources",
        "Show resources: nodes, ippools, bgppeers, bgpfilters, bgpconfigurations, ipreservations, workloadendpoints,\n"
        "and those of policy: globalnetworkpolicies, networkpolicies, both also staged, tiers, profiles,\n"
        "globalnetworksets, networksets, hostendpoints.",
    )
    parser.add_argument("kind", metavar="KIND", nargs="?", help="a kind, such as ippools, ippool or pool; or KIND/NAME")
    parser.add_argument("names", metavar="NAME", nargs="*", help="names; without any, all are shown")
    parser.add_argument(
        "-o", "--output", default="ps", metavar="FORMAT", help="ps, wide, yaml, json, name or custom-columns=NAME,..."
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="the namespace of the resources (default: 'default')"
    )
    parser.add_argument("-A", "-a", "--all-namespaces", action="store_true", help="resources of all namespaces")
    parser.add_argument(
        "--selector", metavar="SELECTOR", help="only resources whose labels match, such as \"rack == 'a'\""
    )
    _one_node(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="live policy: then print a line for each change")
    _files_of_resources(parser)
    parser.add_argument(
        "--export", action="store_true", help="leave out resourceVersion and, with a NAME, the namespace"
    )
    _inventory(parser)
    _config(parser)


def _node(commands: t.Any) -> None:
    group = _group(commands, "node", "this node: its BGP sessions, its files, its kernel")
    parser = _command(
        group, "status", "node.node_status.run", "show the BGP sessions",
        "Show the BGP sessions of this node. The exit status is 0 only if all of them are up.",
    )  # fmt: skip
    _output(parser, "text", "json")
    parser = _command(
        group, "diags", "node.diagnostics.run", "collect diagnostics of this node",
        "Collect diagnostics into diags-DATE_TIME.tar.gz, which only root can read. Passwords are left out.",
    )  # fmt: skip
    parser.add_argument(
        "--log-dir", default=".", metavar="FOLDER", help="the folder to write to (default: the current one)"
    )
    _command(group, "checksystem", "node.system_check.run", "check whether this host can be a node", of_node=False)


def _ipam(commands: t.Any) -> None:
    group = _group(commands, "ipam", "the addresses of this node's blocks")
    parser = _command(group, "show", "ipam.show", "show how many addresses are in use")
    parser.add_argument("--show-blocks", action="store_true", help="show each block as well")
    parser.add_argument("--show-nodes", action="store_true", help="with a datastore: show each node as well")
    _one_node(parser)
    parser.add_argument("--ip", metavar="ADDRESS", help="show which workload has this address")
    parser.add_argument("--show-configuration", action="store_true", help="show how addresses are allocated")
    _inventory(parser)
    _config(parser)
    _output(parser, "text", "json")
    parser = _command(
        group, "check", "ipam.check", "look for addresses that leaked or are used twice",
        "Compare allocations with workloads and blocks. The exit status is 1 if anything is wrong.\n"
        "With a datastore, also compare what nodes have published with its blocks and with this node.\n"
        "On the controller, with -i: ask all nodes of the inventory by Ansible, and change nothing.",
    )  # fmt: skip
    _one_node(parser)
    _inventory(parser)
    _config(parser)
    _output(parser, "text", "json")
    parser = _command(group, "release", "ipam.release", "release an address that leaked: one that nothing uses")
    parser.add_argument("--ip", metavar="ADDRESS", required=True)


def _workload(commands: t.Any) -> None:
    group = _group(commands, "workload", "workloads that come and go between runs of Ansible")
    parser = _command(group, "add", "workloads.add", "attach a network namespace to the fleet's network")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-n", "--namespace", default="default", help="Calico's namespace, a part of the name")
    parser.add_argument(
        "--netns", metavar="NETNS", help="name (created if missing) or path of the network namespace (default: NAME)"
    )
    parser.add_argument("--pid", type=int, metavar="PID", help="the network namespace of this process")
    parser.add_argument(
        "--interface", default="eth0", metavar="DEVICE", help="name of the interface in the namespace (default: eth0)"
    )
    parser.add_argument("--address", metavar="ADDRESS", help="IPv4 address (default: any free one)")
    parser.add_argument("--address6", metavar="ADDRESS", help="IPv6 address (default: any free one)")
    parser.add_argument(
        "--family",
        action="append",
        type=int,
        default=[],
        choices=(4, 6),
        help="assign an address of this IP version; may be repeated",
    )
    parser.add_argument(
        "--pool", action="append", default=[], metavar="POOL", help="assign an address of this pool; may be repeated"
    )
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("--mac", metavar="MAC", help="MAC address of the interface in the namespace")
    parser.add_argument("--mtu", type=int, metavar="BYTES", help="MTU, if smaller than the pool's")
    parser.add_argument(
        "--publish", action="append", default=[], metavar="PORT",
        help="a port of the host that leads to it: [ADDRESS:]HOSTPORT:PORT[/PROTOCOL]; may be repeated",
    )  # fmt: skip
    _wait(parser)
    _output(parser, "text", "json", "yaml")
    for name in ("del", "delete"):
        parser = _command(group, name, "workloads.delete", "delete workloads and release their addresses")
        parser.add_argument("names", metavar="NAME", nargs="+")
        parser.add_argument("-n", "--namespace", default="default")
        _wait(parser)
    parser = _command(group, "label", "workloads.label", "change the labels of a workload, which policy selects by")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("labels", metavar="LABEL", nargs="+", help="KEY=VALUE to set a label, KEY- to remove it")
    parser.add_argument("-n", "--namespace", default="default")
    _output(parser, "text", "json", "yaml")
    for name, run, help in (
        ("get", "workloads.get", "show everything about one workload"),
        ("check", "workloads.check", "show whether a workload is as desired; exit status 1 if not"),
    ):
        parser = _command(group, name, run, help)
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("-n", "--namespace", default="default")
        _output(parser, "text", "wide", "json", "yaml")
    parser = _command(
        group, "list", "workloads.list_workloads", "show all workloads",
        "Show the workloads of all nodes, in a fleet without a datastore those of this node.",
    )  # fmt: skip
    parser.add_argument(
        "--selector", metavar="SELECTOR", help="only workloads whose labels match, such as \"app == 'web'\""
    )
    _one_node(parser)
    _config(parser)
    _output(parser, "text", "wide", "json", "yaml")


def _wait(parser: Parser) -> None:
    parser.add_argument(
        "--wait", type=int, default=0, metavar="SECONDS",
        help="how long to wait for an agent that does not answer, such as one that restarts (default: 0)",
    )  # fmt: skip


def _policy(commands: t.Any) -> None:
    group = _group(commands, "policy", "policy of this node: explain a verdict, show drops")
    parser = _command(
        group, "explain", "policy_explain.run", "show whether a flow is allowed, which rule decides, and its path",
        "Show whether a flow is allowed, which rule decides, which rules do not match before it, and its path. It is\n"
        "computed from this node's state, or from an inventory; no packet is sent. The exit status is 0 if the flow\n"
        "is allowed, 1 if it is denied, and 2 if there is no answer.",
    )  # fmt: skip
    for option, dest in (("--from", "source"), ("--to", "destination")):
        parser.add_argument(
            option, dest=dest, metavar="WHO", required=True, help="a workload (default/web, web), a node or an address"
        )
    parser.add_argument(
        "--port", metavar="PORT/PROTOCOL", default="",
        help="5432/tcp, 53/udp, icmp (a ping), 3/icmp (another type); by default all that the policies distinguish",
    )  # fmt: skip
    parser.add_argument(
        "--source-port", type=int, default=SOURCE_PORT, metavar="PORT",
        help=f"source port (default: {SOURCE_PORT}, one of those that a kernel chooses)",
    )  # fmt: skip
    _inventory(parser)
    parser.add_argument(
        "-v", "--verbose", "--all", dest="all", action="store_true",
        help="show policies that do not apply as well, with the reason",
    )  # fmt: skip
    parser.set_defaults(failure=MISUNDERSTOOD)
    _output(parser, "text", "json")
    parser = _command(
        group, "drops", "policy_drops.run", "show recent drops by policy",
        "Show packets that policy on this node recently dropped or logged. Staged policies and audit mode show what\n"
        "they would drop. Packets between the same endpoints to the same port are one line; the latest comes last.",
    )  # fmt: skip
    parser.add_argument("--workload", metavar="WHO", help="only drops from or to this workload: web, default/web")
    parser.add_argument("--since", metavar="TIME", help="only drops of the last 90s, 5m, 2h or 1d")
    parser.add_argument(
        "--follow", action="store_true", help="keep running, and show a flow again when it has new packets"
    )
    _output(parser, "text", "wide", "json")


def _agent(commands: t.Any) -> None:
    for name, run, help in (
        ("status", "node.agent_status.status", "show whether the node is as desired; exit status 1 if not"),
        ("resync", "node.agent_status.resync", "compare everything with the desired state now, and repair it"),
        ("plan", "node.agent_status.plan", "show what the agent would repair"),
    ):
        _output(_command(commands, name, run, help), "text", "json")
    parser = _command(
        commands, "log-level", "node.agent_status.log_level", "show or set how much the agent logs, until it restarts",
        "Show how much the agent logs, or set it until the agent restarts: debug, info, warning or error. The log is\n"
        "shown by `journalctl -u calico-agent`. With debug, it has each transaction with the workload's name.",
    )  # fmt: skip
    parser.add_argument("level", metavar="LEVEL", nargs="?", help="without it, the level is shown")
    about = "show the version of this program and of the agent"
    parser = _command(commands, "version", "version.run", about, of_node=False)
    parser.add_argument("--client", action="store_true", help="show the version of this program only")
    parser = _command(commands, "help", "", "show the commands, or the help of one")
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="same as ipam show")


def _files(commands: t.Any) -> None:
    parser = _command(
        commands, "validate", "validate.run", "check files of resources, or an inventory",
        "Check files of resources (projectcalico.org/v3, YAML or JSON); or, on the controller, a whole inventory:\n"
        "impossible or fragile settings, and probable mistakes. Nothing is applied.", of_node=False,
    )  # fmt: skip
    _files_of_resources(parser)
    _inventory(parser)
    parser.add_argument("--strict", action="store_true", help="for an inventory: exit with status 1 for warnings, too")
    _output(parser, "text", "json")


def _migration(commands: t.Any) -> None:
    parser = _command(
        commands, "export", "migration.export.run", "print all resources of an inventory",
        "Print all resources of an inventory as Calico's documents, in the order in which Calico exports them.\n"
        "Workloads are left out, as in Calico.", of_node=False,
    )  # fmt: skip
    _inventory(parser)
    parser = _command(
        commands, "import", "migration.import_documents.run", "make an inventory from a real Calico's documents",
        "Make an inventory from a real Calico's documents: `calicoctl get -o yaml` of any kinds, `kubectl get -o\n"
        "yaml` of its blocks, dumps of etcd, and the manifest of calico-node. A report says what was taken, changed\n"
        "and left out, and what still needs a person.", of_node=False,
    )  # fmt: skip
    parser.add_argument("files", metavar="FILE", nargs="*", help="file, folder or -")
    _files_of_resources(parser)
    parser.add_argument("--to", metavar="FOLDER", required=True, help="the folder of the inventory, which is made")
    parser.add_argument(
        "--host-local", action="append", default=[], metavar="NODE=FOLDER",
        help="a node and a copy of its /var/lib/cni/networks, whose addresses workloads keep; may be repeated",
    )  # fmt: skip
    _output(parser, "text", "json")


def _files_of_resources(parser: t.Any) -> None:
    parser.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE", help="file, folder or - ; may be repeated"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include subfolders")
    parser.add_argument("--skip-empty", action="store_true", help="files and folders without a resource are no error")


def _inventory(parser: t.Any) -> None:
    parser.add_argument(
        "-i", "--inventory", action="append", default=[], metavar="INVENTORY",
        help="on the controller: use this inventory, as ansible-playbook -i takes it; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--vault-password-file",
        default="",
        metavar="FILE",
        help="for an inventory: decrypt it with the password in this file",
    )


def _one_node(parser: t.Any) -> None:
    parser.add_argument("--node", metavar="NODE", default="", help="only what is on this node (default: all nodes)")


def _config(parser: t.Any) -> None:
    parser.add_argument(
        "-c", "--config", metavar="FILE", default="",
        help="the way to the datastore, as Calico's calicoctl.cfg (default: /etc/calico/calicoctl.cfg)",
    )  # fmt: skip


def _scale(commands: t.Any) -> None:
    parser = _command(
        commands, "scale", "scale.run", "estimate the sessions, routes and memory of a fleet",
        "Estimate what BGP costs in fleets of some sizes, in a mesh and behind route reflectors: sessions, paths,\n"
        "routes that are advertised at a cold start and for one new block in the whole fleet, and BIRD's memory.\n"
        "All nodes are alike, and no host is contacted. With -i, on the controller, it is the fleet of that\n"
        "inventory; hosts may be down.", of_node=False,
    )  # fmt: skip
    parser.add_argument(
        "sizes", metavar="NODES", nargs="*", type=int, help="number of nodes, such as 200 (default: 100 to 5000)"
    )
    parser.add_argument("--reflectors", type=int, metavar="COUNT", help=f"route reflectors ({REFLECTORS})")
    parser.add_argument("--blocks", type=int, metavar="COUNT", help=f"blocks of each node ({BLOCKS})")
    _inventory(parser)
    _output(parser, "text", "json")


def _shell(commands: t.Any) -> None:
    parser = _command(
        commands, "completion", "shell.completion.run", "print the completion for a shell",
        "Print the script by which a shell completes commands, options, kinds and names. For this shell alone:\n"
        "source <(calicoctl completion bash). On nodes, bash has it if the package bash-completion is installed.",
        of_node=False,
    )  # fmt: skip
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def _changes(commands: t.Any) -> None:
    """Add Calico's verbs that change resources. Without inventory and datastore `command.main` refuses them."""
    for verb in VERBS:
        parser = _command(
            commands, verb, "inventory_change.run", f"{verb} resources of an inventory (-i), or live policy",
            f"{_OF_CHANGES[verb]}\n"
            "On the controller, with -i: the inventory's files of resources change. The whole inventory is checked\n"
            "first, and all is written or nothing. Without -i, with an operator's calicoctl.cfg: live policy in the\n"
            "datastore changes, and is in force everywhere at once. Without both, it prints which variable to edit.",
            of_node=False,
        )  # fmt: skip
        if verb in ("patch", "label"):
            parser.add_argument("kind", metavar="KIND", help="a kind, such as ippools, ippool or pool")
            parser.add_argument("names", metavar="NAME", nargs=1, help="the name of the resource")
        elif verb == "delete":
            parser.add_argument("kind", metavar="KIND", nargs="?", help="a kind, such as ippools, ippool or pool")
            parser.add_argument("names", metavar="NAME", nargs="*", help="names of resources")
        if verb in ("create", "apply", "replace", "delete"):
            _files_of_resources(parser)
        if verb == "create":
            parser.add_argument("--skip-exists", dest="skip", action="store_true", help="pass over what exists already")
        if verb == "delete":
            parser.add_argument(
                "-s", "--skip-not-exists", dest="skip", action="store_true", help="pass over what does not exist"
            )
        if verb == "patch":
            parser.add_argument("-p", "--patch", metavar="PATCH", required=True, help="the patch, in JSON")
            parser.add_argument(
                "-t", "--type", choices=("strategic", "json", "merge"), default="strategic", metavar="TYPE",
                help="strategic (the default), json (RFC 6902) or merge (RFC 7386)",
            )  # fmt: skip
        if verb == "label":
            parser.add_argument("label", metavar="LABEL", help="KEY=VALUE, or KEY with --remove")
            parser.add_argument("--overwrite", action="store_true", help="also if the label has another value")
            parser.add_argument("--remove", action="store_true", help="remove the label")
        parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="the namespace of the resources")
        _inventory(parser)
        _config(parser)
        if verb != "create":
            parser.add_argument(
                "--adopt", action="store_true", help="move a resource that stands in a variable into a file of its own"
            )
        parser.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
        if verb == "apply":
            _owner(parser)
        _wait_for_nodes(parser)
        parser.add_argument(
            "--run", dest="run_playbook", action="store_true", help="show what the hosts would get, ask, and run it"
        )
        parser.add_argument(
            "--playbook", default="", metavar="FILE", help="for --run: another playbook than playbooks/site.yml"
        )
        parser.add_argument("--yes", action="store_true", help="for --run: do not ask")
        parser.set_defaults(of_ansible=())


def _live(commands: t.Any) -> None:
    """Add the commands about live policy alone. `command.main` is given the function that runs them."""
    parser = _command(
        commands, "diff", LIVE, "show what apply would change of live policy",
        "Show the live documents as they are and as `apply` would make them, as a unified diff. The exit status is 0\n"
        "if nothing differs, 1 if something does, and 2 if there is no answer.", of_node=False,
    )  # fmt: skip
    _files_of_resources(parser)
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="the namespace of the resources")
    _owner(parser)
    parser.add_argument("--nodes", action="store_true", help="also ask nodes what it would do")
    _output(parser, "text", "json")
    _config(parser)
    parser.set_defaults(failure=MISUNDERSTOOD)
    parser = _command(
        commands, "history", LIVE, "show who changed live policy, and what",
        "Show the changes of live policy, the newest one last: who made it, when, and what. With an ID, show the\n"
        "documents before and after it.", of_node=False,
    )  # fmt: skip
    parser.add_argument("id", metavar="ID", nargs="?", default="", help="the id of a change")
    parser.add_argument("--last", type=int, default=50, metavar="COUNT", help="so many changes (default: 50)")
    _config(parser)
    _output(parser, "text", "json", "yaml")
    parser = _command(
        commands, "rollback", LIVE, "undo a change of live policy",
        "Undo a change of live policy exactly. It is refused if later changes touch the same. It is itself a change\n"
        "of the history.", of_node=False,
    )  # fmt: skip
    parser.add_argument("id", metavar="ID", help="the id of a change")
    _config(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
    _wait_for_nodes(parser)


def _owner(parser: t.Any) -> None:
    parser.add_argument(
        "--owner", default="", metavar="NAME", help="live policy: mark the documents as those of this owner"
    )
    parser.add_argument(
        "--prune", action="store_true", help="live policy: delete what the owner has and the files do not"
    )


def _seconds(text: str) -> int:
    """Return the whole seconds of a trial. Raise ArgumentTypeError."""
    from argparse import ArgumentTypeError

    from ..resources.durations import whole_seconds

    found = whole_seconds(text, MOST_TRIAL)
    if found is None:
        raise ArgumentTypeError(f"it takes seconds, such as 60s, from 1 to {MOST_TRIAL}")
    return found


def _wait_for_nodes(parser: t.Any) -> None:
    parser.add_argument(
        "--dry-run=server", dest="ask_nodes", action="store_true",
        help="live policy: ask nodes what it would do, and write nothing",
    )  # fmt: skip
    parser.add_argument("--plan", metavar="HASH", help="live policy: only if it is still what --dry-run=server showed")
    parser.add_argument(
        "--confirm", type=_seconds, default=0, metavar="SECONDS",
        help="live policy: try it on all nodes for so long, and make it only if all of them can have it in force",
    )  # fmt: skip
    _output(parser, "text", "json")
    parser.add_argument(
        "--wait", type=float, nargs="?", const=30.0, metavar="SECONDS",
        help="live policy: return when all nodes have it in force (default: 30 seconds)",
    )  # fmt: skip
    parser.add_argument(
        "--force",
        action="store_true",
        help="live policy: also if nodes have a release that knows no live policy, or during a trial, which that ends",
    )
