#!/bin/bash
# Started once on each node: gathers the nodes from ModelArts' variables and hands them to Paddle's own launcher.
nodes=()
for ((i = 0; i < DLS_TASK_NUMBER; i++)); do
    name=BATCH_CUSTOM${i}_HOSTS # host:port
    nodes+=("$(getent ahostsv4 "${!name%:*}" | awk '{ print $1; exit }')") # the launcher asks for addresses
done

[ -n "$CUDA_VISIBLE_DEVICES" ] || unset CUDA_VISIBLE_DEVICES # the launcher takes an empty one for one GPU
cd "$(dirname "$0")" || exit
exec python -m paddle.distributed.launch \
    --ips="$(IFS=,; echo "${nodes[*]}")" \
    --host="${nodes[$DLS_TASK_INDEX]}" \
    --start_port="$BATCH_CURRENT_PORT" \
    --nproc_per_node=2 \
    --log_dir=/cache/log \
    train.py
