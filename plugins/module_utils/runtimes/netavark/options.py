# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a network (`podman network create -o KEY=VALUE`) and of one container (`--network NET:KEY=VALUE`).

Both know `pool`, `mtu`, `dns`, `dns_search` and `label.KEY`. Any other key is an error for a network, and a label for a
container: `--network calico:app=web,tier=front`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ...resources.errors import Refused
from ...resources.metadata import LABELS
from ...state.errors import did_you_mean
from ..json_input import shown
from ..options import LABEL, MTU_OPTION, MTU_RULE, ContainerOptions, mtu_of
from .fields import NetavarkError

POOL, DNS, DNS_SEARCH = "pool", "dns", "dns_search"
KNOWN = (POOL, MTU_OPTION, DNS, DNS_SEARCH)
#: The most name servers and search domains; glibc reads three and six of them.
_SERVERS_LIMIT = 16
#: A domain as resolver(5) takes it. One that begins with a dot, or has other characters, could be another line there.
_DOMAIN = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Options(ContainerOptions):
    """The options of a network or a container; None, () and {} mean that nothing is requested.

    `pools` are names or CIDRs of IP pools, `dns` are addresses of name servers.
    """

    pools: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()


def read(given: t.Mapping[str, str], where: str, *, others_are_labels: bool) -> Options:
    """Return the options in the object at the path `where`; `others_are_labels` holds for a container.

    Raise NetavarkError if an option is wrong, or unknown for a network.
    """
    labels: dict[str, str] = {}
    for key, value in given.items():
        if key.startswith(LABEL):
            labels[key[len(LABEL) :]] = value
        elif key not in KNOWN and others_are_labels:
            labels[key] = value
        elif key not in KNOWN:
            hint = did_you_mean(key, KNOWN, "A network has the options")
            raise NetavarkError(
                f"the network has no option {shown(key)}",
                f"{hint} A label of all its containers is {LABEL}KEY=VALUE.",
            )
    return Options(
        pools=_words(given.get(POOL, "")),
        mtu=_mtu(where, given.get(MTU_OPTION, "")),
        dns=servers(f"{where}.{DNS}", _words(given.get(DNS, ""))),
        dns_search=_domains(f"{where}.{DNS_SEARCH}", _words(given.get(DNS_SEARCH, ""))),
        labels=_labels(where, labels),
    )


def servers(where: str, given: t.Sequence[str]) -> tuple[str, ...]:
    """Return up to 16 addresses of name servers in canonical form. Raise NetavarkError, which says `where` they are."""
    _not_too_many(where, given)
    found = []
    for text in given:
        try:
            found.append(str(ipaddress.ip_address(text)))
        except ValueError:
            raise NetavarkError(
                f"{where} {shown(text)} is not an IP address", "Write name servers as 10.0.0.53,fd00::53."
            ) from None
    return tuple(found)


def _domains(where: str, given: t.Sequence[str]) -> tuple[str, ...]:
    _not_too_many(where, given)
    for text in given:
        if not _DOMAIN.fullmatch(text):
            raise NetavarkError(
                f"{where} {shown(text)} is not a domain", "Write search domains as example.org,example.com."
            )
    return tuple(given)


def _not_too_many(where: str, given: t.Sequence[str]) -> None:
    if len(given) > _SERVERS_LIMIT:
        raise NetavarkError(f"{where} has {len(given)} entries", f"Use at most {_SERVERS_LIMIT}.")


def _words(text: str) -> tuple[str, ...]:
    """Return the words between commas or spaces: podman itself cuts a container's options at commas."""
    return tuple(text.replace(",", " ").split())


def _mtu(where: str, text: str) -> t.Optional[int]:
    try:
        return mtu_of(text)
    except ValueError:
        raise NetavarkError(f"{where}.{MTU_OPTION} {shown(text)} is not possible", f"It is {MTU_RULE}") from None


def _labels(where: str, labels: t.Mapping[str, str]) -> dict[str, str]:
    try:
        return LABELS.read(labels)
    except Refused as error:
        wrong = f"{shown(error.value)} {error.rule}".rstrip(".")
        raise NetavarkError(f"a label in {where} is wrong: {wrong}", error.remedy) from error
