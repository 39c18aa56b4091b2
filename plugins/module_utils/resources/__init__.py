# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calico v3 resources: documents in, defaulted and validated resources out.

    pool = resources.parse({"kind": "IPPool", "metadata": {"name": "a"}, "spec": {"cidr": "10.244.0.0/16"}})
    pool.blockSize, pool.encapsulation         # 26, "None"
    pool.to_document()                         # the document with all defaults

Fields have the names of the Calico documentation (https://docs.tigera.io/calico/latest/reference/resources/), and
documents get the verdict that Calico's own client gives them after filling in its defaults.
"""

from __future__ import annotations

from .bgp import BGPConfiguration, BGPPassword, BGPPeer, Community, PrefixAdvertisement, ServiceIPBlock, split_peer_ip
from .documents import KINDS, parse, parse_flat
from .errors import ResourceError
from .ip_pool import BLOCK_SIZES, ENCAPSULATIONS, IPPool
from .metadata import Metadata
from .node import Node, NodeBGP, NodeStatus
from .resource import API_VERSION, Resource
from .schema import json_schema

__all__ = [
    "API_VERSION",
    "BLOCK_SIZES",
    "ENCAPSULATIONS",
    "KINDS",
    "BGPConfiguration",
    "BGPPassword",
    "BGPPeer",
    "Community",
    "IPPool",
    "Metadata",
    "Node",
    "NodeBGP",
    "NodeStatus",
    "PrefixAdvertisement",
    "Resource",
    "ResourceError",
    "ServiceIPBlock",
    "json_schema",
    "parse",
    "parse_flat",
    "split_peer_ip",
]
