# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calico v3 resources: the reader and validator of documents.

    pool = resources.parse({"kind": "IPPool", "metadata": {"name": "a"}, "spec": {"cidr": "10.244.0.0/16"}})
    pool.blockSize, pool.encapsulation         # 26, "None"
    pool.to_document()                         # the document that `parse` reads as this pool again
    resources.check_supported(policy)          # raises ResourceError for a field that cannot be applied here

Fields have the names of the Calico documentation (https://docs.tigera.io/calico/latest/reference/resources/). The
rules for what is valid are those of Calico's own client, after it has filled in its defaults.
"""

from __future__ import annotations

from ..base.ports import PortRange
from ..base.release import API_VERSION
from .documents import KINDS, parse, parse_flat, settings_remedy
from .errors import ResourceError
from .kinds.bgp import (
    BGPConfiguration,
    BGPPassword,
    BGPPeer,
    Community,
    PrefixAdvertisement,
    ServiceIPBlock,
    split_peer_ip,
)
from .kinds.bgp_filter import BGPFilter, BGPFilterRule, BGPFilterRuleV6
from .kinds.endpoints import EndpointPort, HostEndpoint, WorkloadEndpoint, WorkloadEndpointPort
from .kinds.felix_configuration import FelixConfiguration
from .kinds.ip_pool import BLOCK_SIZES, ENCAPSULATIONS, IPPool
from .kinds.ipam import IPAMConfiguration, IPReservation
from .kinds.network_sets import GlobalNetworkSet, NetworkSet
from .kinds.node import Node, NodeBGP, NodeStatus
from .kinds.policies import GlobalNetworkPolicy, NetworkPolicy
from .kinds.profile import Profile
from .kinds.staged_policies import StagedGlobalNetworkPolicy, StagedNetworkPolicy
from .kinds.tier import DEFAULT_TIER, DEFAULT_TIER_ORDER, Tier
from .metadata import DEFAULT_NAMESPACE, Metadata, NamespacedMetadata
from .ports import PROTOCOLS, Port
from .resource import NamespacedResource, Resource
from .rules import EntityRule, ICMPFields, Rule, RuleMetadata, ServiceAccountMatch
from .schema import json_schema
from .support import check_supported

__all__ = [
    "API_VERSION",
    "BLOCK_SIZES",
    "DEFAULT_NAMESPACE",
    "DEFAULT_TIER",
    "DEFAULT_TIER_ORDER",
    "ENCAPSULATIONS",
    "KINDS",
    "PROTOCOLS",
    "BGPConfiguration",
    "BGPFilter",
    "BGPFilterRule",
    "BGPFilterRuleV6",
    "BGPPassword",
    "BGPPeer",
    "Community",
    "EndpointPort",
    "EntityRule",
    "FelixConfiguration",
    "GlobalNetworkPolicy",
    "GlobalNetworkSet",
    "HostEndpoint",
    "ICMPFields",
    "IPAMConfiguration",
    "IPPool",
    "IPReservation",
    "Metadata",
    "NamespacedMetadata",
    "NamespacedResource",
    "NetworkPolicy",
    "NetworkSet",
    "Node",
    "NodeBGP",
    "NodeStatus",
    "Port",
    "PortRange",
    "PrefixAdvertisement",
    "Profile",
    "Resource",
    "ResourceError",
    "Rule",
    "RuleMetadata",
    "ServiceAccountMatch",
    "ServiceIPBlock",
    "StagedGlobalNetworkPolicy",
    "StagedNetworkPolicy",
    "Tier",
    "WorkloadEndpoint",
    "WorkloadEndpointPort",
    "check_supported",
    "json_schema",
    "parse",
    "parse_flat",
    "settings_remedy",
    "split_peer_ip",
]
