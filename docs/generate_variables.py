# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/reference/variables.md. With --check it writes nothing, and fails if that page is out of date.

Fleet and node variables come from plugins/module_utils/fleet/variables.py, which the compiler reads its defaults from;
variables of roles come from their meta/argument_specs.yml. Nothing is described anywhere else.
"""

from __future__ import annotations

import difflib
import json
import pathlib
import re
import sys
import textwrap
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "variables.md"
sys.path.insert(0, str(ROOT))


def opening(sources: str) -> str:
    """Return the first lines of a page that is written from `sources`: the licence, and that it is generated."""
    return f"""\
<!--
Copyright (c) 2026, baremetal.host_routing contributors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by `make docs` from {sources}. -->
"""


HEAD = f"""\
{opening("plugins/module_utils/fleet/variables.py and roles/*/meta/argument_specs.yml")}\
# Variables

This page lists all variables that you can set in an inventory, by topic. A fleet needs only `calico_ip_pools`, and
`calico_node_address` of each node. All others have defaults.

The column *for* says where to set a variable:

- **fleet**: one value for the whole fleet, in `group_vars/all/`. If two hosts have different values, the run stops.
- **group**: in `group_vars/<group>.yml`. The variable's name ends with the name of the group, in which `-` and `.` are
  written `_`. A host has the lists of all its groups.
- **node**: one value for each node, in `host_vars/<node>.yml`. Nodes of a group can share a value in `group_vars`.
- **role**: a variable of a role. Set it in `group_vars/all/`, for some hosts, or by `-e` for one run.

You can also set variables by the `vars` of a play, role or task, and by `vars_files`, `include_vars`, `set_fact` and
`-e`. Facts that modules return set no variables, nor does a `set_fact` that an earlier run cached. In a template, read
facts as `ansible_facts.default_ipv4`, never as `ansible_default_ipv4`.

`validate.yml` finds misspelt names and wrong values: see [validate](validate.md).
"""


class Section(t.NamedTuple):
    """A table of the page: its heading, the text above it, and the names of its variables in their order."""

    title: str
    about: str
    names: tuple[str, ...]


SECTIONS = (
    Section(
        "Start here",
        "Most fleets set these and no others. [Getting started](../tutorials/getting-started.md) uses them.",
        (
            "calico_ip_pools",
            "calico_node_address",
            "calico_node_address_ipv6",
            "calico_node_labels",
            "calico_underlay_mtu",
            "calico_bgp_as_number",
            "calico_workloads",
            "calico_node_workloads",
        ),
    ),
    Section(
        "Addresses and blocks",
        "[IP address management](../explanation/ipam.md) explains blocks, spare blocks and the lockfile.",
        (
            "calico_spare_blocks",
            "calico_ip_reservations",
            "calico_pools_known_to_routers",
            "calico_unprobed_pools",
            "calico_release_blocks",
            "calico_lockfile",
            "calico_rebuild_lockfile",
            "calico_node_agent_address_cooldown",
            "calico_node_sticky_seconds",
        ),
    ),
    Section(
        "Resources in files",
        "[Resources in files](../how-to/resource-files.md) says which field is which variable.",
        ("calico_resource_files",),
    ),
    Section("Tunnels", "", ("calico_vxlan_port", "calico_vxlan_vni")),
    Section(
        "BGP: sessions",
        "[BGP](bgp.md) has examples.",
        (
            "calico_bgp_enabled",
            "calico_bgp_node_to_node_mesh",
            "calico_bgp_peers",
            "calico_bgp_peers_<group>",
            "calico_node_bgp_peers",
            "calico_node_bgp_as_number",
            "calico_bgp_secrets",
            "calico_bgp_mesh_password",
            "calico_node_router_id",
            "calico_bgp_listen_port",
            "calico_node_bgp_listen_port",
            "calico_bgp_bind_mode",
            "calico_bgp_merge_paths",
            "calico_bgp_log_severity",
        ),
    ),
    Section(
        "BGP: route reflectors",
        "Hosts in the group `calico_rr` are route reflectors.",
        (
            "calico_rr_cluster_id",
            "calico_node_route_reflector_cluster_id",
            "calico_node_route_reflector_clients",
        ),
    ),
    Section(
        "BGP: routes",
        "",
        (
            "calico_bgp_filters",
            "calico_bgp_prefix_advertisements",
            "calico_node_bgp_prefix_advertisements",
            "calico_bgp_communities",
            "calico_bgp_ignored_interfaces",
            "calico_node_bird_include_dir",
        ),
    ),
    Section(
        "BGP: timers and failures",
        "",
        (
            "calico_bgp_bfd",
            "calico_bgp_hold_time",
            "calico_bgp_keepalive_time",
            "calico_bgp_graceful_restart_time",
            "calico_bgp_mesh_max_restart_time",
            "calico_bgp_long_lived_stale_time",
        ),
    ),
    Section(
        "Policy",
        "[Policy](../how-to/policy.md) has examples.",
        (
            "calico_policies",
            "calico_policy_files",
            "calico_policies_<group>",
            "calico_node_policies",
            "calico_policy_enabled",
            "calico_staged_policies",
            "calico_node_policy_audit",
            "calico_workload_profiles",
            "calico_policy_cut_denied_flows",
            "calico_policy_log_group",
        ),
    ),
    Section(
        "Policy: live",
        "Policy in the datastore, in force without a run. [Operators](../how-to/etcd.md#operators) write it.",
        ("calico_live_policy", "calico_etcd_operators"),
    ),
    Section(
        "Policy: hosts and packets",
        "",
        (
            "calico_failsafe_inbound_host_ports",
            "calico_failsafe_outbound_host_ports",
            "calico_default_endpoint_to_host_action",
            "calico_iptables_filter_allow_action",
            "calico_iptables_filter_deny_action",
            "calico_nat_outgoing_exclusions",
            "calico_workload_source_spoofing",
            "calico_allow_etcd_from_workloads",
            "calico_allow_vxlan_packets_from_workloads",
            "calico_allow_ipip_packets_from_workloads",
            "calico_disable_conntrack_invalid_check",
            "calico_iptables_mark_mask",
        ),
    ),
    Section(
        "Runs: limits",
        "A run that exceeds a limit changes nothing. See "
        "[limits and approval](../how-to/switching-topology.md#limits-and-approval).",
        (
            "calico_node_max_routes_withdrawn",
            "calico_node_max_external_resets",
            "calico_node_max_session_resets",
            "calico_node_max_hosts_changed",
            "calico_node_approve",
            "calico_node_report",
            "calico_node_whole_files",
        ),
    ),
    Section(
        "Runs: times and checks",
        "",
        (
            "calico_node_confirm_timeout",
            "calico_node_convergence_timeout",
            "calico_node_generations_kept",
            "calico_node_soak_seconds",
            "calico_node_max_lost_probes",
            "calico_node_probe_sample",
            "calico_node_install_packages",
            "calico_lint_ignore",
        ),
    ),
    Section(
        "Agent",
        "[The agent](agent.md) attaches workloads between runs.",
        (
            "calico_node_agent",
            "calico_node_agent_group",
            "calico_node_agent_metrics_address",
            "calico_node_agent_metrics_port",
            "calico_node_agent_log_level",
            "calico_node_agent_resync_interval",
        ),
    ),
    Section(
        "Container runtimes",
        "See [CNI](cni.md), [podman](../how-to/podman.md) and [Docker](../how-to/docker.md).",
        (
            "calico_node_runtimes",
            "calico_node_runtime_labels",
            "calico_node_cni",
            "calico_node_cni_default",
            "calico_node_cni_network_name",
            "calico_node_cni_conf_dir",
            "calico_node_cni_bin_dir",
            "calico_node_cni_chained_plugins",
            "calico_node_podman_networks",
        ),
    ),
    Section(
        "Datastore: access",
        "With hosts in the group `calico_etcd`, you need none of these. Set them for a cluster of your own. "
        "See [the datastore](../how-to/datastore.md).",
        (
            "calico_etcd_endpoints",
            "calico_etcd_ca",
            "calico_etcd_cert",
            "calico_etcd_key",
            "calico_etcd_username",
            "calico_etcd_password",
            "calico_etcd_node_secret",
            "calico_etcd_progress_interval",
        ),
    ),
    Section(
        "Datastore: the etcd cluster",
        "For hosts in the group `calico_etcd`. See [etcd](../how-to/etcd.md).",
        (
            "calico_etcd_address",
            "calico_etcd_operator_addresses",
            "calico_etcd_quota_bytes",
            "calico_etcd_memory_bytes",
            "calico_etcd_snapshot_count",
            "calico_etcd_compaction_minutes",
            "calico_etcd_node_workloads",
            "calico_etcd_ca_cert",
            "calico_etcd_ca_key",
            "calico_etcd_ca_days",
            "calico_etcd_certificate_days",
            "calico_etcd_timeout",
            "calico_etcd_upgrade",
            "calico_etcd_clear_alarms",
        ),
    ),
    Section(
        "Set by playbooks",
        "Playbooks set these from their own options. Do not set them in an inventory.",
        (
            "calico_node_pool",
            "calico_node_mode",
            "calico_node_topology",
            "calico_node_leaving",
            "calico_etcd_renew",
            "calico_etcd_succession",
        ),
    ),
)

#: A name of a variable that is not in backticks, a value in the markup of ansible-doc, and a page of the documentation.
_NAME = re.compile(r"(?<![`\w<])(calico_(?:node|bgp|etcd|rr|ip|policy|underlay|vxlan|allow)_[a-z0-9_]+)(?![`\w>])")
_MARKUP = re.compile(r"\b[CVO]\(([^)]*)\)")
_PAGE = re.compile(r"docs/(tutorials|how-to|reference|explanation)/([a-z0-9-]+)\.md")

#: The cells of a row: name, for, type, default, meaning.
Row = tuple[str, str, str, str, str]


def page() -> str:
    """Return the page. Raise ValueError if a variable is in no section, in two, or does not exist."""
    rows = all_rows()
    listed = [name for section in SECTIONS for name in section.names]
    wrong = sorted({*listed} ^ {*rows} | {name for name in listed if listed.count(name) > 1})
    if wrong:
        raise ValueError(
            f"these variables have no section, have two, or do not exist: {', '.join(wrong)}; see SECTIONS"
        )
    return "\n".join([HEAD, *(table(section, rows) for section in SECTIONS)])


def all_rows() -> dict[str, Row]:
    """Return the row of each variable by its name."""
    from plugins.module_utils.fleet.variables import VARIABLES

    rows = {variable.name: fleet_row(variable) for variable in VARIABLES}
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        for spec in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            rows.update({key: role_row(key, option) for key, option in (spec.get("options") or {}).items()})
    return rows


def table(section: Section, rows: t.Mapping[str, Row]) -> str:
    lines = [f"## {section.title}", ""]
    if section.about:
        lines += [*textwrap.wrap(section.about, 118, break_long_words=False, break_on_hyphens=False), ""]
    lines += ["| variable | for | type | default | meaning |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(rows[name])} |" for name in section.names]
    return "\n".join(lines) + "\n"


def fleet_row(variable: t.Any) -> Row:
    if variable.required:
        default = "**required**"
    elif variable.default_text:
        default = prose(variable.default_text)
    else:
        default = literal(variable.default)
    text = prose(variable.description)
    if variable.choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in variable.choices)}."
    if variable.minimum is not None and variable.maximum is not None:
        text += f" From {variable.minimum} to {variable.maximum}."
    if variable.example:
        text += f"<br>Example: `{cell(variable.example)}`"
    return f"`{variable.name}`", variable.scope, variable.type, default, text


def role_row(name: str, option: dict[str, t.Any]) -> Row:
    description = option.get("description", "")
    text = prose(" ".join(description) if isinstance(description, list) else description)
    choices = [choice for choice in option.get("choices") or () if choice]
    if choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = "**required**" if option.get("required") else literal(option.get("default"))
    return f"`{name}`", "role", option.get("type", "str"), default, text


def prose(text: str) -> str:
    """Return a description as Markdown for a cell, with names and values as code, and pages as links."""
    parts = _MARKUP.sub(r"`\1`", cell(text)).split("`")
    for index in range(0, len(parts), 2):
        parts[index] = _PAGE.sub(_link, _NAME.sub(r"`\1`", parts[index]))
    return "`".join(parts)


def _link(found: re.Match[str]) -> str:
    folder, name = found.groups()
    return f"[{name}]({name}.md)" if folder == "reference" else f"[{name}](../{folder}/{name}.md)"


def literal(value: t.Any) -> str:
    return "" if value is None else f"`{cell(json.dumps(value))}`"


def cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def written(path: pathlib.Path, wanted: str) -> int:
    """Write the page `wanted` to `path`, or with --check in sys.argv only print how the file differs.

    Return the exit status: 1 if --check is given and the file differs or is missing, 0 otherwise.
    """
    if "--check" not in sys.argv[1:]:
        path.write_text(wanted, "utf-8")
        return 0
    present = path.read_text("utf-8") if path.is_file() else ""
    if present == wanted:
        return 0
    name = str(path.relative_to(ROOT))
    print("\n".join(difflib.unified_diff(present.splitlines(), wanted.splitlines(), name, "generated", lineterm="")))
    print(f"{name} is not what its sources say. Write it anew with `make docs`.")
    return 1


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
