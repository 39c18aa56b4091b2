# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: tests/lab/lab up, down, status, exec ..."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from . import Lab, LabError, names
from .topology import DEFAULT_HOSTS, DEFAULT_NAME, NODES, TORS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/lab/lab", description="Real systemd hosts in two subnets, on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--name", default=DEFAULT_NAME, help="name of the lab (HOST_ROUTING_LAB, else lab)")
        return command

    up = add("up", "start the lab; does nothing where it runs already")
    up.add_argument(
        "--hosts", help=f"hosts with commas between them (default: {','.join(DEFAULT_HOSTS)}; known: {','.join(NODES)})"
    )
    up.add_argument(
        "--machine", choices=("native", "qemu"), default="native", help="qemu: inside a machine with Debian's kernel"
    )
    up.add_argument(
        "--plain",
        dest="baked",
        action="store_false",
        help="hosts without BIRD, ipset and so on: roles must install them",
    )
    up.add_argument(
        "--baked", dest="baked", action="store_true", default=True, help="hosts with these packages (default)"
    )
    up.add_argument(
        "--switches",
        action="store_true",
        default=bool(os.environ.get("HOST_ROUTING_LAB_SWITCHES")),
        help=f"with top-of-rack switches: {', '.join(TORS)} (HOST_ROUTING_LAB_SWITCHES)",
    )
    up.add_argument(
        "--ipv6",
        action="store_true",
        default=bool(os.environ.get("HOST_ROUTING_LAB_IPV6")),
        help="with IPv6 beside IPv4 in both subnets (HOST_ROUTING_LAB_IPV6)",
    )
    up.add_argument("--fresh", action="store_true", help="take it down first")
    add("down", "remove the lab")
    add("status", "what runs")
    add("ssh-config", "print the path of the ssh_config")
    for name, text in (
        ("reboot", "reboot a host and wait for it"),
        ("power-cut", "a host is gone at once, without a word"),
        ("start", "power a host on"),
        ("link-down", "pull the cable of a host's eth0"),
        ("link-up", "plug it in again"),
    ):
        switches = TORS if name in ("power-cut", "start") else ()
        add(name, text).add_argument("node", choices=[*NODES, *switches])
    etcd = add("etcd", "let hosts install etcd and be members of a cluster, which ansible-playbook makes in `control`")
    etcd.add_argument("members", nargs="+", choices=NODES)
    execute = add("exec", "run a command in a host, a switch, router, outside or control")
    execute.add_argument("--netns", help="in this named namespace of the host")
    execute.add_argument("where")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    capture = add("capture", "what passes on a link of the underlay, as text")
    capture.add_argument("where", help="a host (its link), or rack1, rack2 (the subnet)")
    capture.add_argument("expression", nargs="?", default="", help="tcpdump filter")
    capture.add_argument("--seconds", type=float, default=10)
    capture.add_argument("--count", type=int)
    capture.add_argument("--pcap", help="write the packets to this file instead of printing them")
    image = commands.add_parser("image", help="build the images beforehand", description="Build the images beforehand.")
    image.add_argument("--machine", choices=("native", "qemu"), default="native")
    image.add_argument("--prune", action="store_true", help="remove images that no present recipe names")
    destroy = commands.add_parser("destroy", help="remove every lab", description="Remove every lab.")
    destroy.add_argument("--all", action="store_true", required=True)
    destroy.add_argument("--cache", action="store_true", help="the images too")
    return parser


def _status(name: str) -> int:
    lab = Lab(name)
    if not lab.state:
        print(f"The lab {name!r} is not up.")
        return 1
    kind = "baked" if lab.state["baked"] else "plain"
    print(f"lab {name}, {lab.machine}, {kind} hosts, ssh -F {lab.ssh_config} HOST")
    for node in lab.nodes:
        print(
            f"  {node.name}  {node.address:<12} {node.release:<9} {'running' if lab.is_running(node.name) else 'off'}"
        )
    return 0


def _exec(name: str, where: str, argv: list[str], netns: str | None) -> int:
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        raise LabError("What is to run? tests/lab/lab exec node1 -- ip route")
    lab = Lab(name)
    words = argv if len(argv) > 1 else argv[0]  # one word is a command line for the shell
    return subprocess.run(lab._command(where, words, netns), check=False).returncode


def _capture(options: argparse.Namespace) -> int:
    capture = Lab(options.name).capture(options.where, options.seconds, options.expression, options.count)
    if options.pcap:
        with open(options.pcap, "wb") as file:
            file.write(capture.pcap)
    else:
        print(capture.text("-e"), end="")
    return 0


def _destroy(cache: bool) -> int:
    for name in names():
        Lab(name).down()
    if cache:
        from .topology import CACHE_ROOT

        subprocess.run(["rm", "-rf", "--one-file-system", str(CACHE_ROOT)], check=True)
    return 0


def _image(machine: str, prune: bool) -> int:
    from .machines import images

    images.build()
    from .machines import machine as emulated

    if machine == "qemu":
        emulated.build_image()

    for path in images.drop_stale([emulated.machine_layer(), emulated.disk_folder()]) if prune else []:
        print(f"removed {path}")
    return 0


def run(options: argparse.Namespace) -> int:
    command = options.command
    if command == "status":
        return _status(options.name)
    if command == "exec":
        return _exec(options.name, options.where, options.argv, options.netns)
    if command == "capture":
        return _capture(options)
    if command == "destroy":
        return _destroy(options.cache)
    if command == "image":
        return _image(options.machine, options.prune)
    if command == "up":
        if options.fresh:
            Lab(options.name).down()
        Lab(options.name, options.machine).up(
            options.hosts, options.baked, switches=options.switches, ipv6=options.ipv6
        )
        return 0
    lab = Lab(options.name)
    if command == "ssh-config":
        print(lab.ssh_config)
    elif command == "down":
        lab.down()
    elif command == "etcd":
        from .machines.etcd import prepare_members

        prepare_members(lab, options.members)
    elif command.startswith("link-"):
        lab.link(options.node, up=command == "link-up")
    else:
        getattr(lab, command.replace("-", "_"))(options.node)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    # The administrator's programs, such as ip, are found whatever PATH the caller has.
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
    options = _parser().parse_args(arguments)
    try:
        return run(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
