# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Written by docs/generate_manual.py. Do not edit it.
# Completion of calicoctl for bash. For this shell alone: source <(calicoctl completion bash)
_calicoctl() {
    local -a lines
    local line
    COMPREPLY=()
    mapfile -t lines < <("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" </dev/null 2>/dev/null)
    if [[ ${#lines[@]} -eq 1 && ${lines[0]} == :files ]]; then
        compopt -o default
        return
    fi
    for line in "${lines[@]}"; do
        [[ $line =~ ^[A-Za-z0-9_-][A-Za-z0-9_.:/@=,+%-]*$ ]] && COMPREPLY+=("$line")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -F _calicoctl calicoctl
