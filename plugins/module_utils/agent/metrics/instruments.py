# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of the agent: the name, meaning, labels and Felix's counterpart of each. They are defined only here.

docs/reference/metrics.md is generated from this (`make docs`). Tests compare the alerts and the dashboard in
roles/calico_node/files/monitoring with it. Code that measures uses the attributes:

    instruments = Instruments(Registry())
    instruments.drift.add("route")
    instruments.apply_seconds.observe("route", value=0.012)

Labels have few values, known beforehand: kinds of objects, methods, outcomes, policies, pools and blocks of this node.
No metric counts by workload or by BGP peer: in a full mesh, series by peer would grow quadratically with the nodes.
Paths that are down are named, at most 16.
"""

from __future__ import annotations

import typing as t

from ...dataplane.planning.registry import REGISTRY
from ...ipam.allocations import Usage
from ...pathwatch.round_trips import BOUNDS
from .metrics import Counter, Gauge, Histogram, Registry

#: The free fraction of a pool's addresses on a node, from 0 to 1, below which there is a warning
FREE_RATIO_WARNING = 0.2

#: Bucket bounds in seconds for short times
_SHORT = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)

#: Values of labels: changes and drift are counted by the kind of object (Change.kind); errors, problems and the times
#: of applying by the driver's name.
OBJECTS = REGISTRY.kinds
DRIVERS = REGISTRY.names

RESYNC_REASONS = ("start", "timer", "request", "lost")
#: Values of the label `state` by which workloads are counted
RUN_TIME, INVENTORY, DELETING = "run_time", "inventory", "deleting"

#: Values of the label `state` by which paths are counted
PATH_STATES = ("up", "down", "untested", "node_down")

#: Values of the label `kind` by which the beginnings of following the datastore are counted
RESUMPTION, LISTING = "resumption", "listing"
CONNECTIONS = (RESUMPTION, LISTING)
#: Values of the label `state` by which workloads in the datastore are counted
KNOWN, REFUSED = "known", "refused"

#: Verbs of CNI 1.1; any other verb counts as `other`.
CNI_VERBS = frozenset({"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"})

#: Commands of netavark's plugin API; any other command counts as `other`.
NETAVARK_COMMANDS = frozenset({"create", "setup", "teardown", "info"})


class Instruments:
    """The metrics of the agent, as attributes. `felix` maps names of some to Calico's, of about the same meaning."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.felix: dict[str, str] = {}

        # metrics of the agent itself
        self.build_info = self._gauge(
            "calico_agent_build_info",
            "Always 1; its labels are the release, the digest of the engine and the node's name.",
            ["version", "engine", "node"],
            "felix_host",
        )
        self.loop_lag = self._histogram(
            "calico_agent_loop_lag_seconds",
            "Delay of the event loop's timers. Above 0.1 the agent has too much to do at once.",
            buckets=_SHORT,
        )
        self.resident_max = self._gauge(
            "calico_agent_resident_memory_max_bytes", "Largest resident memory of the agent since its start (VmHWM)."
        )
        self.start_time = self._gauge(
            "process_start_time_seconds",
            "Start time of the agent, in seconds since 1970.",
            felix="process_start_time_seconds",
        )
        self.cpu = self._counter(
            "process_cpu_seconds", "Processor time that the agent has used.", felix="process_cpu_seconds_total"
        )
        self.resident = self._gauge(
            "process_resident_memory_bytes", "Resident memory of the agent.", felix="process_resident_memory_bytes"
        )
        self.open_fds = self._gauge("process_open_fds", "Open files of the agent.", felix="process_open_fds")
        self.api_seconds = self._histogram(
            "calico_agent_api_request_seconds",
            "Duration of requests on the agent's socket, by method and outcome: ok, or the error's code.",
            ["method", "outcome"],
        )

        # metrics of the node's state and its repair
        self.in_sync = self._gauge(
            "calico_agent_in_sync",
            "1 while the node is in its desired state; 0 while something is missing or cannot be done.",
            felix="felix_resync_state",
        )
        self.state_complete = self._gauge(
            "calico_agent_state_complete",
            "0 while a run of Ansible that changes the node is not finished; the agent removes nothing then.",
        )
        self.engine_altered = self._gauge(
            "calico_agent_engine_altered",
            "1 if a file of the engine differed from the installed one when the agent or the boot unit was started.",
        )
        self.last_converged = self._gauge(
            "calico_agent_last_converged_timestamp_seconds",
            "Time of the last check that found the node in its desired state, in seconds since 1970.",
        )
        self.resyncs = self._counter(
            "calico_agent_resyncs",
            "Comparisons of the node with its desired state, by reason: start, timer, request, lost (kernel events).",
            ["reason"],
            "felix_resyncs_started",
        )
        self.apply_seconds = self._histogram(
            "calico_agent_apply_seconds",
            "Time to compare one kind of object with the kernel and to correct it.",
            ["kind"],
            "felix_int_dataplane_apply_time_seconds, felix_route_table_list_seconds, "
            "felix_route_table_per_iface_sync_seconds",
        )
        self.changes = self._counter(
            "calico_agent_changes",
            "Objects that the agent created, changed or removed in the kernel, by kind; repaired drift included.",
            ["kind"],
            "felix_iptables_lines_executed, felix_ipset_lines_executed",
        )
        self.drift = self._counter(
            "calico_agent_drift",
            "Objects that others changed or removed and the agent repaired, by kind.",
            ["kind"],
        )
        self.errors = self._counter(
            "calico_agent_errors",
            "Failures to bring objects to their desired state, by kind; the agent retries.",
            ["kind"],
            "felix_int_dataplane_failures, felix_iptables_restore_errors, felix_ipset_errors",
        )
        self.problems = self._gauge(
            "calico_agent_problems",
            "Objects that differ from the desired state and cannot be corrected now, by kind.",
            ["kind"],
        )
        self.events_lost = self._counter(
            "calico_agent_netlink_overruns",
            "Overflows of the queue of kernel events (ENOBUFS); after each the agent checks everything.",
        )

        # metrics of paths to other nodes
        self.paths_watched = self._gauge(
            "calico_agent_paths_watched", "1 if the agent probes the paths to other nodes; 0 otherwise."
        )
        self.paths = self._gauge(
            "calico_agent_paths",
            "Paths to other nodes, by pool and state: up, down, untested, or node_down (the whole node is down).",
            ["pool", "state"],
        )
        self.path_down = self._gauge(
            "calico_agent_path_down_seconds",
            "Seconds since when a path is down, of at most 16 paths, by pool, node, direction and reason.",
            ["pool", "peer", "direction", "reason"],
        )
        self.path_round_trips = self._histogram(
            "calico_agent_path_round_trip_seconds",
            "Round-trip times of full packets to other nodes' probe endpoints, by pool.",
            ["pool"],
            buckets=BOUNDS,
        )
        self.path_fragments = self._counter(
            "calico_agent_reassembled_packets",
            "IPv4 packets that the host put together from fragments, of any program, while it had VXLAN over IPv4.",
        )

        # metrics of workloads
        self.workloads = self._gauge(
            "calico_agent_workloads",
            "Workloads by state: run_time, inventory, or deleting (deleted for callers, but links remain).",
            ["state"],
            "felix_active_local_endpoints, felix_cluster_num_workload_endpoints",
        )
        self.cni_seconds = self._histogram(
            "calico_cni_request_seconds",
            "Duration of requests of the CNI plugin, by verb and result: ok, or the code of the CNI error.",
            ["verb", "result"],
        )
        self.netavark_seconds = self._histogram(
            "calico_netavark_request_seconds",
            "Duration of requests of podman's netavark plugin, by command and result: ok or error.",
            ["command", "result"],
        )

        # metrics of addresses
        self.block_addresses = self._gauge(
            "calico_ipam_block_addresses",
            "Addresses of the node's blocks, by state: in_use, reserved, cooling (just released) or free.",
            ["pool", "block", "state"],
            "ipam_allocations_per_node (kube-controllers)",
        )
        self.pool_free_ratio = self._gauge(
            "calico_ipam_pool_free_ratio",
            "Free fraction of the pool's addresses on this node, spare blocks included, from 0 to 1.",
            ["pool"],
        )
        self.blocks = self._gauge(
            "calico_ipam_blocks",
            "Blocks of this node, by state: open, or spare while no address of them was assigned.",
            ["pool", "state"],
            "ipam_blocks_per_node (kube-controllers)",
        )
        self.refused = self._counter(
            "calico_ipam_refusals", "Workloads that were refused an address because the node's blocks are full."
        )
        self.flush_seconds = self._histogram(
            "calico_ipam_flush_seconds", "Time to write allocations to the disk; one write may serve many requests."
        )

        # metrics of BGP
        self.bird_up = self._gauge("calico_bird_up", "1 while BIRD answers at its control socket.")
        self.bgp_sessions = self._gauge("calico_bgp_sessions", "BGP sessions that this node should have.")
        self.bgp_established = self._gauge("calico_bgp_sessions_established", "BGP sessions that are Established.")
        self.bgp_refused = self._counter(
            "calico_bgp_refused_announcements",
            "Routes of fleet nodes that this node rejected: its own blocks, and what is no block of a pool.",
        )

        # metrics of the datastore; a node of a fleet without one has no values of the gauges
        self.datastore_synced = self._gauge(
            "calico_datastore_synced",
            "1 while changes of other nodes' workloads arrive from the datastore at once.",
            felix="typha_connections_active, felix_resync_state",
        )
        self.datastore_known_until = self._gauge(
            "calico_datastore_known_until_timestamp_seconds",
            "Time up to which the node knows all changes of the datastore, in seconds since 1970.",
        )
        self.datastore_workloads = self._gauge(
            "calico_datastore_workloads",
            "Workloads in the datastore, this node's included, by state: known, or refused.",
            ["state"],
            "felix_cluster_num_workload_endpoints",
        )
        self.live_documents = self._gauge(
            "calico_live_documents",
            "Documents of live policy in the datastore, by state: known, or refused.",
            ["state"],
        )
        self.datastore_waiting = self._gauge(
            "calico_datastore_waiting_keys", "Keys of this node's own workloads that are not yet in the datastore."
        )
        self.datastore_begun = self._counter(
            "calico_datastore_connections",
            "New connections to the datastore, by kind: resumption, or listing of all keys.",
            ["kind"],
        )

        # metrics of policy
        self.policy_packets = self._counter(
            "calico_policy_packets",
            "Packets that policy dropped, would drop (staged, audit mode) or logged, by verdict and deciding policy.",
            ["verdict", "direction", "kind", "tier", "policy"],
            "calico_denied_packets",
        )
        self.policy_log_lost = self._counter(
            "calico_policy_log_lost_packets",
            "Packets that rules dropped or logged and the agent missed, because there were too many at once.",
        )
        self.flows_cut = self._counter(
            "calico_policy_cut_flows",
            "Connections that were ended because a new policy denies them (calico_policy_cut_denied_flows).",
        )

        # These series begin at 0: PromQL's increase() misses the first event of a series that appears with the value 1.
        for reason in RESYNC_REASONS:
            self.resyncs.declare(reason)
        for kind in OBJECTS:
            self.drift.declare(kind)
            self.changes.declare(kind)
        for kind in CONNECTIONS:
            self.datastore_begun.declare(kind)
        for kind in DRIVERS:
            self.errors.declare(kind)
            self.problems.set(kind, value=0)

    # --- for callers whose values are not these labels

    def describe(self, version: str, engine: str, node: str) -> None:
        """Set the build information to these labels alone."""
        self.build_info.replace({(version, engine, node): 1})

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """Record the time of one API request, in seconds; a function for Server(observed=...)."""
        self.api_seconds.observe(method, outcome, value=seconds)

    def answered_cni(self, verb: str, outcome: str, seconds: float) -> None:
        """Record the seconds of one CNI request; `outcome` is "ok" or the error's code. Unknown verbs are `other`."""
        self.cni_seconds.observe(verb if verb in CNI_VERBS else "other", outcome, value=seconds)

    def answered_netavark(self, command: str, outcome: str, seconds: float) -> None:
        """Record the seconds of one netavark request; `outcome` is "ok" or "error". Unknown commands are `other`."""
        self.netavark_seconds.observe(command if command in NETAVARK_COMMANDS else "other", outcome, value=seconds)

    def lost_events(self) -> None:
        """Record that kernel events were lost, by an overrun or with their socket, and the resync that follows."""
        self.events_lost.add()
        self.resyncs.add("lost")

    def converged(self, in_sync: bool, now: float) -> None:
        """Record whether the node is in sync; if it is, also the time `now`, in seconds since 1970."""
        self.in_sync.set(value=float(in_sync))
        if in_sync:
            self.last_converged.set(value=now)

    def use_of_addresses(self, usage: t.Sequence[Usage]) -> None:
        """Set the metrics of blocks and pools from `usage`, which has one entry for each block of the node.

        Values of other blocks and pools disappear. The ratio of free addresses is (free + cooling) to (free + cooling +
        in use) over all blocks of the pool, spare ones included, and 0 for a pool without any.
        """
        addresses: dict[t.Sequence[str], float] = {}
        blocks: dict[t.Sequence[str], float] = {}
        left: dict[str, list[int]] = {}
        for block in usage:
            for state in ("in_use", "reserved", "cooling", "free"):
                addresses[(block.pool, block.cidr, state)] = getattr(block, state)
            for state, is_spare in (("open", False), ("spare", True)):
                blocks[(block.pool, state)] = blocks.get((block.pool, state), 0) + (block.spare is is_spare)
            free, usable = left.setdefault(block.pool, [0, 0])
            free += block.free + block.cooling
            left[block.pool] = [free, usable + max(block.in_use + block.cooling + block.free, 0)]
        self.block_addresses.replace(addresses)
        self.blocks.replace(blocks)
        self.pool_free_ratio.replace(
            {(pool,): free / usable if usable else 0.0 for pool, (free, usable) in left.items()}
        )

    # ---

    def _counter(self, name: str, help: str, labels: t.Sequence[str] = (), felix: str = "") -> Counter:
        self._note(name, felix)
        return self.registry.counter(name, help, labels)

    def _gauge(self, name: str, help: str, labels: t.Sequence[str] = (), felix: str = "") -> Gauge:
        self._note(name, felix)
        return self.registry.gauge(name, help, labels)

    def _histogram(
        self,
        name: str,
        help: str,
        labels: t.Sequence[str] = (),
        felix: str = "",
        buckets: t.Optional[t.Sequence[float]] = None,
    ) -> Histogram:
        self._note(name, felix)
        if buckets is None:
            return self.registry.histogram(name, help, labels)
        return self.registry.histogram(name, help, labels, buckets)

    def _note(self, name: str, felix: str) -> None:
        if felix:
            self.felix[name] = felix
