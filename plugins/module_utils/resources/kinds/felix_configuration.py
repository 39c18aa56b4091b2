# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""FelixConfiguration: settings of the agent that programs Calico's nodes.

Most fields have no counterpart here. All of Calico's are known all the same, so that a misspelt one is found, and one
without effect is named. Source: https://docs.tigera.io/calico/latest/reference/resources/felixconfig
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import parse_cidr_or_address
from ..errors import Refused
from ..fields import (
    DURATION,
    FLAG,
    IPV4,
    IPV6,
    NETWORK,
    TEXT,
    Document,
    Fields,
    Integer,
    Items,
    OneOf,
    SelectorText,
    Text,
    Type,
    field,
    is_label,
)
from ..metadata import ANNOTATIONS
from ..ports import RULE_PORT, Port
from ..resource import Resource

_SEVERITIES = ("Trace", "Debug", "Info", "Warning", "Error", "Fatal")
_NUMBER = Integer()
_PORT = Integer(0, 65535)
_PRIORITY = Integer(1, 2**31 - 2)
_MOST_TABLES = 250
_MOST_TABLE = 2**32 - 1
_MOST_PORT_RANGES = 7  # iptables compares 15 ports at once, and a range counts twice
_LONGEST_REGION = 63 - len("openstack-region-")


def _matching(pattern: str, rule: str, remedy: str) -> Text:
    return Text(lambda text: bool(re.fullmatch(pattern, text, re.ASCII)), rule, remedy)


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _is_ipv4_network(text: str) -> bool:
    cidr = parse_cidr_or_address(text)
    return cidr is not None and cidr.version == 4


_EXPRESSION = Text(_is_expression, "is not a regular expression.", "Write for example eth.*.")
_PAIRS = _matching(
    r"(\s*\w+=[^,]*|)(,(\s*\w+=[^,]*|))*", "is not a list of names with values.", "Write a=true,b=false."
)
_PATTERN = _matching(
    r"[a-zA-Z0-9:._+-]{1,15}",
    "cannot match an interface.",
    "Use at most 15 letters, digits, ':', '-', '_', '.' and '+'.",
)
_DEVICE = _matching(
    r"[a-zA-Z0-9_.-]{1,15}",
    "is not the name of an interface.",
    "Use at most 15 letters, digits, '-', '_' and '.'.",
)
_HOST = _matching(r"[a-zA-Z0-9:._+-]{1,64}", "is not a host.", "Write localhost, or an address such as 10.0.0.1.")
_REGION = Text(
    lambda text: is_label(text) and len(text) <= _LONGEST_REGION,
    "is not the name of a region.",
    f"Use at most {_LONGEST_REGION} lower case letters, digits and '-', beginning and ending with a letter or digit.",
)


@dataclasses.dataclass(frozen=True)
class ProtoPort:
    """A port that policy never closes, to the addresses in `net` or to all."""

    protocol: str = field(TEXT, "")
    port: int = field(_PORT, 0)
    net: str = field(TEXT, "")


@dataclasses.dataclass(frozen=True)
class HealthTimeoutOverride:
    """A time after which a part of Felix counts as hanging."""

    name: str = field(TEXT, "")
    timeout: str = field(DURATION, "")


@dataclasses.dataclass(frozen=True)
class RouteTableRange:
    """Numbers of routing tables. `checked` raises Refused unless they are between 1 and 250."""

    min: int = field(_NUMBER, 0)
    max: int = field(_NUMBER, 0)

    def checked(self) -> RouteTableRange:
        if not 1 <= self.min <= self.max <= _MOST_TABLES:
            raise Refused(None, f"is not a range within 1 to {_MOST_TABLES}.", "Write for example {min: 1, max: 250}.")
        return self


@dataclasses.dataclass(frozen=True)
class RouteTableIDRange:
    """Numbers of routing tables. `checked` raises Refused unless they are a range of 32 bits that begins above 0."""

    min: int = field(_NUMBER, 0)
    max: int = field(_NUMBER, 0)

    def checked(self) -> RouteTableIDRange:
        if not 1 <= self.min <= self.max <= _MOST_TABLE:
            raise Refused(None, f"is not a range within 1 to {_MOST_TABLE}.", "Write for example {min: 1, max: 250}.")
        return self


class _NumberedPorts:
    """A port or a range of ports by number."""

    def read(self, value: t.Any) -> Port:
        found = RULE_PORT.read(value)
        if isinstance(found, str):
            raise Refused(value, "is not a port or a range of ports.", "Write 80 or 1000:2000.")
        return found

    def write(self, value: Port) -> t.Any:
        return RULE_PORT.write(value)

    def schema(self) -> Document:
        return RULE_PORT.schema()


_PORTS = _NumberedPorts()


def _one(*words: str) -> OneOf:
    return OneOf(words, "")


#: The fields by type, each type with the names of its fields.
_TYPES: tuple[tuple[Type, str], ...] = (
    (
        FLAG,
        "useInternalDataplaneDriver ipv6Support ipipEnabled vxlanEnabled allowVXLANPacketsFromWorkloads "
        "allowIPIPPacketsFromWorkloads endpointReportingEnabled disableConntrackInvalidCheck healthEnabled "
        "prometheusMetricsEnabled prometheusGoMetricsEnabled prometheusProcessMetricsEnabled "
        "prometheusWireGuardMetricsEnabled usageReportingEnabled removeExternalRoutes debugDisableLogDropping "
        "sidecarAccelerationEnabled xdpEnabled genericXDPEnabled bpfEnabled bpfDisableUnprivileged "
        "bpfConnectTimeLoadBalancingEnabled bpfKubeProxyIptablesCleanupEnabled bpfHostConntrackBypass "
        "bpfIPFragmentReassemblyEnabled bpfPolicyDebugEnabled flowLogsCollectorDebugTrace routeSyncDisabled "
        "wireguardEnabled wireguardEnabledV6 wireguardThreadingEnabled wireguardHostEncryptionEnabled requireMTUFile",
    ),
    (
        DURATION,
        "dataplaneWatchdogTimeout routeRefreshInterval interfaceRefreshInterval iptablesRefreshInterval "
        "iptablesPostWriteCheckInterval iptablesLockProbeInterval iptablesLockTimeout ipsetsRefreshInterval "
        "xdpRefreshInterval netlinkTimeout reportingInterval reportingTTL endpointReportingDelay "
        "usageReportingInitialDelay usageReportingInterval debugSimulateCalcGraphHangAfter "
        "debugSimulateDataplaneHangAfter debugSimulateDataplaneApplyDelay nftablesRefreshInterval bpfIPFragTimeout "
        "bpfKubeProxyMinSyncPeriod flowLogsFlushInterval liveMigrationRouteConvergenceTime wireguardKeepAlive "
        "localSubnetL2ReachabilityRefreshInterval",
    ),
    (
        TEXT,
        "dataplaneDriver iptablesLockFilePath metadataAddr interfacePrefix interfaceExclude logPrefix "
        "logActionRateLimit logFilePath endpointStatusPathPrefix healthHost prometheusMetricsCAFile "
        "prometheusMetricsCertFile prometheusMetricsKeyFile policySyncPathPrefix debugMemoryProfilePath debugHost "
        "bpfCTLBLogFilter cgroupV2Path bpfRedirectToPeer flowLogsGoldmaneServer bpfProfiling",
    ),
    (
        _NUMBER,
        "maxIpsetSize logActionRateLimitBurst ipipMTU vxlanMTU vxlanMTUV6 vxlanVNI deviceRouteProtocol "
        "bpfMapSizeNATFrontend bpfMapSizeNATBackend bpfMapSizeNATAffinity bpfMapSizeRoute bpfMapSizeConntrack "
        "bpfMapSizePerCpuConntrack bpfMapSizeConntrackCleanupQueue bpfMapSizeIPSets bpfMapSizeIfState "
        "bpfExportBufferSizeMB wireguardMTU wireguardMTUV6 goGCThreshold goMemoryLimitMB goMaxProcs",
    ),
    (_PORT, "metadataPort vxlanPort healthPort prometheusMetricsPort debugPort bpfKubeProxyHealthzPort"),
    (Integer(1, 65535), "wireguardListeningPort wireguardListeningPortV6"),
    (Integer(1, 32765), "wireguardRoutingRulePriority"),
    (Integer(1, 3000), "bpfMaglevMaxEndpointsPerService bpfMaglevMaxServices"),
    (Integer(0, 2**32 - 1), "iptablesMarkMask nftablesMarkMask bpfExtToServiceConnmark"),
    (
        _PRIORITY,
        "ipv4NormalRoutePriority ipv4ElevatedRoutePriority ipv6NormalRoutePriority ipv6ElevatedRoutePriority",
    ),
    (_one(*_SEVERITIES), "logSeverityFile logSeverityScreen logSeveritySys"),
    (_one("Off", "Info", "Debug"), "bpfLogLevel"),
    (_one("Off", "Debug"), "bpfConntrackLogLevel"),
    (_one("Drop", "Accept", "Return"), "defaultEndpointToHostAction"),
    (
        _one("Accept", "Return"),
        "iptablesFilterAllowAction iptablesMangleAllowAction nftablesFilterAllowAction nftablesMangleAllowAction",
    ),
    (_one("Drop", "Reject"), "iptablesFilterDenyAction nftablesFilterDenyAction"),
    (_one("Insert", "Append"), "chainInsertMode"),
    (_one("Legacy", "NFT", "Auto", "legacy", "nft", "auto"), "iptablesBackend"),
    (_one("IPPoolsOnly", "IPPoolsAndHostIPs"), "natOutgoingExclusions"),
    (
        _one("Enabled", "Disabled"),
        "ipForwarding flowLogsLocalReporter floatingIPs windowsManageFirewallRules istioAmbientMode "
        "bpfHostNetworkedNATWithoutCTLB",
    ),
    (_one("Enabled", "Disabled", "EnabledIPIPOnly", "EnabledNoEncapOnly"), "programClusterRoutes"),
    (_one("Disabled", "Enabled", "Auto"), "nftablesMode"),
    (_one("All", "Disabled"), "nftablesFlowTableOffload"),
    (_one("TunnelAddress", "HostAddress"), "bpfOverlayHostSourceIP"),
    (_one("Auto", "Strict"), "bpfJITHardening"),
    (_one("Auto", "Userspace", "BPFProgram"), "bpfConntrackMode"),
    (_one("TCP", "Enabled", "Disabled"), "bpfConnectTimeLoadBalancing"),
    (_one("Tunnel", "DSR"), "bpfExternalServiceMode"),
    (_one("Disabled", "DoubleIfFull"), "bpfMapSizeConntrackScaling"),
    (_one("Disabled", "Strict", "Loose"), "bpfEnforceRPF"),
    (_one("TC", "TCX", "Netkit"), "bpfAttachType"),
    (_one("None", "Continuous"), "flowLogsPolicyEvaluationMode"),
    (_one("WorkloadIPs", "CalicoIPAM"), "routeSource"),
    (_one("DoNothing", "Enable", "Disable"), "awsSrcDstCheck"),
    (_one("Drop", "Reject", "Disabled"), "serviceLoopPrevention"),
    (_one("Disabled", "Any"), "workloadSourceSpoofing"),
    (_one("Disabled", "PodsAndLoadBalancers"), "localSubnetL2Reachability"),
    (
        _one("RequireAndVerifyClientCert", "RequireAnyClientCert", "VerifyClientCertIfGiven", "NoClientCert"),
        "prometheusMetricsClientAuth",
    ),
    (SelectorText(), "nodeSelector"),
    (_PAIRS, "featureDetectOverride featureGates"),
    (_REGION, "openstackRegion"),
    (
        _EXPRESSION,
        "logDebugFilenameRegex nftablesFlowTableDataIfacePattern bpfDataIfacePattern bpfL3IfacePattern "
        "bpfDisableGROForIfaces mtuIfacePattern",
    ),
    (_HOST, "prometheusMetricsHost"),
    (IPV4, "natOutgoingAddress deviceRouteSourceAddress"),
    (IPV6, "deviceRouteSourceAddressIPv6"),
    (_DEVICE, "wireguardInterfaceName wireguardInterfaceNameV6"),
    (_PATTERN, "iptablesNATOutgoingInterfaceFilter"),
    (Items(_PATTERN), "bpfForceTrackPacketsFromIfaces"),
    (Items(NETWORK), "bpfDSROptoutCIDRs bpfExcludeCIDRsFromNAT"),
    (
        Items(Text(_is_ipv4_network, "is not an IPv4 address or range.", "Write for example 10.0.0.0/8.")),
        "externalNodesList",
    ),
    (Items(_PORTS), "kubeNodePortRanges"),
    (_PORTS, "natPortRange bpfPSNATPorts"),
    (Items(Fields(ProtoPort)), "failsafeInboundHostPorts failsafeOutboundHostPorts"),
    (Items(Fields(HealthTimeoutOverride)), "healthTimeoutOverrides"),
    (Fields(RouteTableRange), "routeTableRange"),
    (Items(Fields(RouteTableIDRange)), "routeTableRanges"),
    (ANNOTATIONS, "bpfLogFilters bpfConntrackTimeouts"),
    (Integer(0, 63), "istioDSCPMark"),
)


def _checked(self: t.Any) -> t.Any:
    """Return this resource. Raises Refused for too many ranges of ports."""
    ranges = self.kubeNodePortRanges or ()
    if len(ranges) > _MOST_PORT_RANGES:
        raise Refused(
            None,
            f"has {len(ranges)} ranges, and {_MOST_PORT_RANGES} are the most.",
            "Join ranges that lie beside each other.",
            "kubeNodePortRanges",
        )
    return self


def _is_text(kind: Type) -> bool:
    """Return whether an empty text counts as unset for fields of this type."""
    return isinstance(kind, (Text, OneOf, SelectorText)) and kind is not DURATION


#: The class of a FelixConfiguration. Its attributes are the fields, None or "" for one that is not set.
FelixConfiguration: type[Resource] = dataclasses.make_dataclass(
    "FelixConfiguration",
    [(name, t.Any, field(kind, "" if _is_text(kind) else None)) for kind, names in _TYPES for name in names.split()],
    bases=(Resource,),
    namespace={
        "KIND": "FelixConfiguration",
        "__doc__": "Settings of Felix. `checked` raises Refused for more than seven ranges in kubeNodePortRanges.",
        "__module__": __name__,
        "checked": _checked,
    },
    frozen=True,
)
