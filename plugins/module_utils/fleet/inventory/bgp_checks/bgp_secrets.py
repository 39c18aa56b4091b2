# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variable calico_bgp_secrets: the passwords that an inventory has for BGP, and the references to them.

A Fleet contains only the names of secrets. Errors name the variable and never contain a value.
"""

from __future__ import annotations

import typing as t

from ....bgp import passwords
from ....resources.kinds.bgp import BGPPassword
from ....state.errors import FleetError, did_you_mean, within

VARIABLE = "calico_bgp_secrets"

_EXAMPLE = "Write for example {tor-a: {password: ...}}, the password encrypted with ansible-vault."


def read(value: t.Any) -> passwords.Passwords:
    """Return the passwords in `value` by `name:key`. Raise FleetError for the first invalid name, key or password."""
    if not isinstance(value, t.Mapping):
        raise FleetError(VARIABLE, None, "is not a dictionary of secrets.", _EXAMPLE)
    found: dict[str, str] = {}
    for name, keys in value.items():
        label = f"{VARIABLE}.{name}"
        if not isinstance(keys, t.Mapping):
            raise FleetError(label, None, "is not a dictionary of keys and their passwords.", _EXAMPLE)
        for key, password in keys.items():
            problem = passwords.problem_of_name(name, key) or passwords.problem_of_password(password)
            if problem:
                raise FleetError(f"{label}.{key}", None, problem.rule, problem.remedy)
            found[passwords.secret_name(name, key)] = password
    return passwords.Passwords(found)


def referred(password: t.Optional[BGPPassword], known: t.Collection[str], label: str) -> str:
    """Return the name (`name:key`) of the secret that `password` refers to.

    It is "" for None, and for an optional reference to a secret that is not among `known`, the names of all. `label` is
    the field for errors. Raise FleetError if the reference is incomplete, or if the secret does not exist.
    """
    if password is None:
        return ""
    reference = password.secretKeyRef
    if reference is None or not reference.name or not reference.key:
        raise FleetError(
            label, None, "does not say which secret.", "Write secretKeyRef: {name: tor-a, key: password} there."
        )
    name = passwords.secret_name(reference.name, reference.key)
    if name in known:
        return name
    if reference.optional:
        return ""
    remedy = f"Add {{{reference.name}: {{{reference.key}: ...}}}} there, encrypted with ansible-vault."
    if known:
        remedy = did_you_mean(name, known, f"{remedy} It has")
    raise FleetError(within(label, "secretKeyRef"), name, f"is not in {VARIABLE}.", remedy)
