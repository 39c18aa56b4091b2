# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a network (`docker network create -o KEY=VALUE`) and of one container (`driver-opt=KEY=VALUE`).

Both know `mtu` and `label.KEY`. Any other key is an error for a network, and a label for a container. Those of a
container stand in place of its network's.
"""

from __future__ import annotations

import typing as t

from ...resources.errors import Refused
from ...resources.fields import nearest
from ...resources.metadata import LABELS
from ..options import LABEL, MTU_OPTION, MTU_RULE, ContainerOptions, mtu_of
from .refusal import RefusedRequest, shown

#: Options that the driver cannot have, or that podman's networks have, by key: what to do instead.
_INSTEAD = {
    "pool": "Choose IP pools for the whole network: docker network create --ipam-opt pool=NAME.",
    "dns": "Use --dns of docker run.",
    "dns_search": "Use --dns-search of docker run.",
}
_NAME_INSTEAD = "It is an option of one container: --network name=NETWORK,driver-opt=name=NAME."
_DOCKERS = "com.docker."  # the beginning of options that belong to Docker's own drivers


def read(given: t.Mapping[str, t.Any], word: str) -> ContainerOptions:
    """Return the options in `given`; `word` names one for people: "-o" or "driver-opt". Raise RefusedRequest."""
    labels: dict[str, t.Any] = {}
    mtu = None
    for key, value in given.items():
        if key == MTU_OPTION:
            mtu = _mtu(word, value)
        elif key in _INSTEAD:
            raise RefusedRequest(
                f"{word} {key}=... is not possible with the driver calico. {_INSTEAD[key]} A label of this key is"
                f" {LABEL}{key}=VALUE."
            )
        elif key.startswith(_DOCKERS):
            raise RefusedRequest(
                f"{word} {shown(key)} is an option of Docker's own drivers. The driver calico has: {MTU_OPTION},"
                f" and labels."
            )
        else:
            labels[key[len(LABEL) :] if key.startswith(LABEL) else key] = value
    try:
        return ContainerOptions(LABELS.read(labels), mtu)
    except Refused as error:
        raise RefusedRequest(f"A {word} is a label, and {shown(error.value)} {error.rule} {error.remedy}") from error


def read_network(given: t.Mapping[str, t.Any]) -> ContainerOptions:
    """Return the options of a network. Raise RefusedRequest as `read` does, for a name, and for unknown options."""
    if "name" in given:
        raise RefusedRequest(f"-o name=... is not possible with the driver calico. {_NAME_INSTEAD}")
    for key in given:
        if not (key == MTU_OPTION or key in _INSTEAD or key.startswith((LABEL, _DOCKERS))):
            word, dot, dummy = key.partition(".")
            near = nearest(f"{word}.KEY" if dot else key, (MTU_OPTION, f"{LABEL}KEY"))
            hint = f"Did you mean {near[0]}?" if near else f"A network has the options {LABEL}KEY or {MTU_OPTION}."
            raise RefusedRequest(
                f"The driver calico has no option -o {shown(key)}. {hint} A label of all containers of the network is"
                f" {LABEL}KEY=VALUE."
            )
    return read(given, "-o")


def _mtu(word: str, text: t.Any) -> t.Optional[int]:
    try:
        return mtu_of(text)
    except ValueError:
        raise RefusedRequest(f"{word} {MTU_OPTION}={shown(text)} is not an MTU: {MTU_RULE}") from None
