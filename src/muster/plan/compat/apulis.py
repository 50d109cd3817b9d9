"""`compat: apulis`: the Apulis platform, with DLWS_* variables, a hostfile for ssh, and a rank table in the user's home."""

from __future__ import annotations

import shlex

from muster.job import Job
from muster.plan import ranktable
from muster.plan.compat.base import Compat
from muster.plan.node import File, Places
from muster.plan.world import Node, World

SUDO = """#!/bin/bash
# Stands in for sudo: runs the command as the user who is there.
while [ $# -gt 0 ]; do
    case "$1" in
    --) shift; break ;;
    -[ugpCrtUhDT] | --user | --group | --prompt | --chdir) shift 2 ;;
    -*) shift ;;
    [A-Za-z_]*=*) export "$1"; shift ;;
    *) break ;;
    esac
done
exec "$@"
"""

# On the platform `sleep infinity` keeps the services of a finished job reachable, and its devices taken.
SLEEP = """#!/bin/sh
case "$*" in infinity | inf)
    echo "muster: sleep infinity lasts %(seconds)g seconds here (keep_alive)" >&2
    set -- %(seconds)g ;;
esac
exec env PATH="$(command -p getconf PATH)" sleep "$@"
"""


class Apulis(Compat):
    shared = ("/job",)

    def user_home(self, user: str) -> str:
        """The user's home on the platform, which all nodes see."""
        return "/home/" + user

    def names(self, job: Job, run: str, index: int) -> list[str]:
        return [f"worker-{index}", f"ib-worker-{index}"]

    def _shared(self, job: Job, world: World, places: Places) -> dict[str, str]:
        """Files in directories that all nodes see where they share a disk: each node writes the same."""
        home = places.common_at(self.user_home(world.master.info.user))
        names = ["master"] if len(world.workers) == 1 else [f"worker-{node.index}" for node in world.workers]
        files = {
            places.common_at("/job/hostfile"): "".join(f"{name} slots={job.devices}\n" for name in names),
            home + "/ib_config": "".join(f"ib-worker-{node.index} slots={job.devices}\n" for node in world.workers),
        }
        if job.npu:
            servers = ranktable.servers(world, {node.index: _pod(world, node) for node in world.workers})
            files[self.rank_table(world, places)] = ranktable.render(job.rank_table or "lab", servers)
            files[self._table(world, places, "tf")] = ranktable.render("pods", servers)
        return files

    def variables(self, job: Job, world: World, node: Node, places: Places) -> dict[str, str]:
        info = node.info
        single = len(world.workers) == 1
        env = {
            "DLWS_JOB_ID": world.run,
            "DLWS_VC_NAME": "platform",
            "DLWS_USER_NAME": info.user,
            "DLWS_USER_EMAIL": f"{info.user}@{info.host}",
            "DLWS_UID": str(info.uid),
            "DLWS_GID": str(info.gid),
            "DLWS_ROLE_NAME": "master" if single else "worker",
            "DLWS_ROLE_IDX": str(node.index),
            "DLTS_ROLE_IDX": str(node.index),
            "DLWS_NUM_PS": "0",
            "DLWS_NUM_WORKER": str(len(world.workers)),
            "DLWS_NUM_GPU_PER_WORKER": str(job.devices),
            "DLWS_GPU_TYPE": "huawei_npu_arm64" if job.npu else "nvidia_gpu_amd64",
            "DLWS_IS_NPU_JOB": "true" if job.npu else "false",
            "DLWS_HOST_NETWORK": "enable",
            "DLWS_LAUNCH_CMD": _text(job),
            "POD_NAME": _pod(world, node),
            "POD_IP": node.address,
        }
        if not places.root:
            env["HOME"] = self.user_home(info.user)
        if not single:
            env["DLWS_WORKER_NUM"] = str(len(world.workers))
        env.update(_peer("SELF", world, node))
        for other in world.workers:
            env.update(_peer(f"worker{other.index}", world, other))
        if job.npu:
            env.update(self._npu(job, world, node, places))
        return env

    def _npu(self, job: Job, world: World, node: Node, places: Places) -> dict[str, str]:
        table = self.rank_table(world, places)
        return {
            "VISIBLE_IDS": ",".join(device.id for device in node.info.devices),
            "NPU_IPS": _npu_ips(node),
            "RANK_TABLE_FILE": table,
            "MINDSPORE_HCCL_CONFIG_PATH": table,
            "RANK_SIZE": str(len(world.workers) * job.devices),
            "DEVICE_NUM": str(job.devices),
            "DEVICE_ID": node.info.devices[0].id,
            "DEVICE_INDEX": "0",
            "JOB_ID": world.run,
            "SOC_VERSION": "Ascend910",
            "HCCL_CONNECT_TIMEOUT": "200",
        }

    def rank_table(self, world: World, places: Places) -> str:
        return self._table(world, places, "ms")

    def files(self, job: Job, world: World, node: Node, places: Places) -> tuple[File, ...]:
        sleep = SLEEP % {"seconds": job.keep_alive or 0}
        shared = [File(path, text) for path, text in self._shared(job, world, places).items()]
        return (File(places.bin + "/sudo", SUDO, 0o755), File(places.bin + "/sleep", sleep, 0o755), *shared)

    def prefix(self, job: Job, places: Places) -> dict[str, tuple[str, ...]]:
        return {"PATH": (places.bin,)}

    def _table(self, world: World, places: Places, kind: str) -> str:
        home = places.common_at(self.user_home(world.master.info.user))
        return f"{home}/.npu/{world.run}/hccl_{kind}.json"


def _pod(world: World, node: Node) -> str:
    return world.run if len(world.workers) == 1 else f"{world.run}-worker{node.index}"


def _peer(name: str, world: World, node: Node) -> dict[str, str]:
    values = {"IP": node.address, "SSH_PORT": str(world.ssh_port or 22), "IB_IP": node.address, "HOST_IP": node.address}
    if any(device.ip for device in node.info.devices):
        values["NPU_IP_LIST"] = _npu_ips(node)
    return {f"DLWS_SD_{name}_{key}": value for key, value in values.items()}


def _npu_ips(node: Node) -> str:
    return ",".join(f"{device.id}:{device.ip or node.address}" for device in node.info.devices)


def _text(job: Job) -> str:
    if job.boot:
        return "python " + job.boot
    return job.command if isinstance(job.command, str) else shlex.join(job.command)


PLATFORM = Apulis()
