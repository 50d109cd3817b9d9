"""A program that stands for horovodrun, as far as ssh and secrets go."""

from __future__ import annotations

# What Horovod's own launcher does with its environment and with ssh, in a few lines of shell.
HOROVODRUN = r"""#!/bin/bash
rank=0 port=
while :; do
    case $1 in
    -hostfile | --hostfile) hosts=$2; shift 2 ;;
    -p) port="-p $2"; shift 2 ;;
    -np | --network-interface) shift 2 ;;
    --disable-cache) shift ;;
    *) break ;;
    esac
done
quoted() { printf '%q ' "$@"; }
mapfile -d '' -t environment < <(env -0)
while read -r host slots; do
    for ((local = 0; local < ${slots#slots=}; local++)); do
        command=$(quoted env HOROVOD_RANK=$rank HOROVOD_LOCAL_RANK=$local "${environment[@]}" "$@")
        echo "$host $command" >> "$SEEN"
        ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no "$host" $port "cd $(quoted "$PWD") ; $command" &
        rank=$((rank + 1))
    done
done < "$hosts"
wait
"""
