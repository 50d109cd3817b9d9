"""Texts of the scheduler's reasons, in English and Chinese."""

from __future__ import annotations

GIB = 1024**3


class Number(int):
    """A number in a text: `{nodes:node|nodes}` is `1 node` or `2 nodes`, `{nodes:=is|are}` the word alone."""

    def __format__(self, spec: str) -> str:
        one, bar, many = spec.removeprefix("=").partition("|")
        if not bar:
            return int.__format__(self, spec)
        word = one if self == 1 else many
        return word if spec.startswith("=") else f"{int(self)} {word}"


TEXTS: dict[str, tuple[str, str]] = {
    "paused": ("it was paused by {by}", "已被 {by} 暂停"),
    "after": ("it waits for {runs}", "等待 {runs}"),
    "drained": ("drained by {by}", "已被 {by} 停用"),
    "drained_because": ("drained by {by}: {why}", "已被 {by} 停用：{why}"),
    "failed_check": ("failed its check: {why}", "未通过检查：{why}"),
    "pool_gone": ("the pool {pool} does not exist any more", "资源池 {pool} 已不存在"),
    "pool_drained": ("the pool {pool} takes no new runs: {why}", "资源池 {pool} 不接受新的运行：{why}"),
    "runs": ("the pool has {runs:run|runs}, and takes no more at once", "资源池已有 {runs} 个运行，达到上限"),
    "quota": (
        "quota of {whose} leaves {left} of {most} {kind}, and it needs {asks}",
        "{whose} 的 {kind} 配额为 {most}，剩余 {left}，需要 {asks}",
    ),
    "quota_small": (
        "it needs {asks} {kind}, and the quota of {whose} is {most}: only a preemptible run may exceed it",
        "需要 {asks} 个 {kind}，而 {whose} 的配额为 {most}：只有可抢占的运行可以超出配额",
    ),
    "quota_kept": (
        "{devices} {kind} of the quota of {whose} are kept for run {run} ahead",
        "{whose} 的配额中有 {devices} 个 {kind} 留给前面的运行 {run}",
    ),
    "user_of": ("{user} in {project}", "{project} 中的 {user}"),
    "nodes": (
        "{free} of {there:node|nodes} with {shape} {there:=is|are} free, and it needs {nodes}",
        "{there} 个有 {shape} 的节点中有 {free} 个空闲，需要 {nodes} 个",
    ),
    "part": ("it needs {shape}, which does not fit into what is free now", "需要 {shape}，现有的空闲资源放不下"),
    "parts": (
        "there is room for {free} of its {nodes:part|parts} with {shape}",
        "现有空间可容纳其 {nodes} 个部分（各 {shape}）中的 {free} 个",
    ),
    "devices": (
        "{free} of {there} {kind} {there:=is|are} free, and it needs {asks}",
        "{there} 个 {kind} 中有 {free} 个空闲，需要 {asks} 个",
    ),
    "cpus": (
        "{free} of {there:CPU|CPUs} {there:=is|are} free, and it needs {asks}",
        "{there} 核 CPU 中有 {free} 核空闲，需要 {asks} 核",
    ),
    "memory": ("{free} of {there} memory is free, and it needs {asks}", "{there} 内存中有 {free} 空闲，需要 {asks}"),
    "servers": (
        "it needs {servers:more node for its parameter server|more nodes for its parameter servers}",
        "还需要 {servers} 个节点用于参数服务器",
    ),
    "unusable": (
        "it needs {nodes:node|nodes} with {shape}, and {usable} of {there} {there:=is|are} usable: {names}",
        "需要 {nodes} 个有 {shape} 的节点，{there} 个中可用 {usable} 个：{names}",
    ),
    "unusable_node": ("{name} ({why})", "{name}（{why}）"),
    "short": ("nothing starts now on {names}", "现在不会在以下节点启动运行：{names}"),
    "files": ("it continues where its files lie: {names}", "将在其文件所在的节点上继续：{names}"),
    "changed": (
        "it needs {nodes:node|nodes} with {shape}, and the pool has {there} now",
        "需要 {nodes} 个有 {shape} 的节点，资源池现有 {there} 个",
    ),
    "ahead": ("run {run} ahead needs {devices} {kind}", "前面的运行 {run} 需要 {devices} 个 {kind}"),
    "no_limit": (
        "it has no time limit, and only runs with one may start before that run",
        "没有设置时限，只有设置了时限的运行才能先于它启动",
    ),
    "would_delay": ("it would delay run {run}, for which a place is kept", "会推迟已预留位置的运行 {run}"),
    "making_room": ("{count:run makes|runs make} room for it: {names}", "{count} 个运行正在为它腾出资源：{names}"),
    "next_pass": ("it is looked at again in the next pass", "将在下一轮调度中再次检查"),
    "of_others": ("of others", "（他人的）"),
    "more": ("{count} more", "另外 {count} 个"),
    "expected": ("expected in {time} ({source})", "预计{time}后启动（{source}）"),
    "expected_soon": ("expected as soon as they have gone", "待它们退出后即启动"),
    "limits": ("from time limits", "根据时限估计"),
    "past": ("from past runs", "根据以往的运行估计"),
    "limits_and_past": ("from time limits and past runs", "根据时限和以往的运行估计"),
    # Refusals
    "no_nodes": ("the pool {pool} has no nodes", "资源池 {pool} 没有节点"),
    "no_kind": ("asks for {kind} devices, and the pool {pool} has none", "需要 {kind} 设备，资源池 {pool} 没有"),
    "no_model": (
        "asks for {kind} devices of model {model}, and the pool {pool} has {there}",
        "需要型号为 {model} 的 {kind} 设备，资源池 {pool} 有 {there}",
    ),
    "no_label": (
        "asks for nodes with {label}, and no node of the pool {pool} has it",
        "需要带标签 {label} 的节点，资源池 {pool} 中没有",
    ),
    "constraints_of_slurm": (
        "asks for nodes with {names}, and in the pool {pool} Slurm chooses the nodes: name its features in the job with "
        "`slurm: {{constraint: FEATURE}}` instead of `constraints`, or choose another pool",
        "需要带 {names} 的节点，而资源池 {pool} 由 Slurm 选择节点：请在作业中用 `slurm: {{constraint: FEATURE}}` "
        "代替 `constraints`，或选择其他资源池",
    ),
    "ring": (
        "asks for {devices} ascend devices a node, and a node gives 1, 2 or 4 of one ring, or all 8",
        "每个节点需要 {devices} 个 ascend 设备，而一个节点只能给出同一环内的 1、2、4 个，或全部 8 个",
    ),
    "too_large": (
        "asks for {nodes:node|nodes} with {shape}, and the pool {pool} has no such node",
        "需要 {nodes} 个有 {shape} 的节点，资源池 {pool} 中没有这样的节点",
    ),
    "too_many": (
        "asks for {nodes:node|nodes} with {shape}; the pool {pool} has {there:such node|such nodes}",
        "需要 {nodes} 个有 {shape} 的节点，资源池 {pool} 有 {there} 个这样的节点",
    ),
    "too_many_parts": (
        "asks for {nodes:part|parts} with {shape}; the pool {pool} has room for {there}",
        "需要 {nodes} 个部分（各 {shape}），资源池 {pool} 能容纳 {there} 个",
    ),
    "too_many_servers": (
        "asks for {nodes:node|nodes} with {shape} and {servers:more for its parameter server|more for its parameter servers}; "
        "the pool {pool} has no room for all of them",
        "需要 {nodes} 个有 {shape} 的节点，另需 {servers} 个节点用于参数服务器；资源池 {pool} 容纳不下",
    ),
    "ask_for": ("{why}: ask for {nodes:node|nodes} with {shape}", "{why}：请改为 {nodes} 个有 {shape} 的节点"),
}


def shape(
    devices: int, kind: str, cpus: int, memory: int, model: str, labels: tuple[tuple[str, str], ...], language: str
) -> str:
    """What one part of a gang needs: `8 ascend, 16 CPUs, 64 GiB`."""
    chinese = language == "zh"
    said = [f"{devices} {'个 ' if chinese else ''}{kind}"]
    if model:
        said[0] += f"（型号 {model}）" if chinese else f" of model {model}"
    if cpus:
        said.append(f"{cpus} 核 CPU" if chinese else f"{Number(cpus):CPU|CPUs}")
    if memory:
        said.append(f"{gibibytes(memory)} {'内存' if chinese else 'memory'}")
    said += [f"标签 {name}={value}" if chinese else f"label {name}={value}" for name, value in labels]
    return ("、" if chinese else ", ").join(said)


def gibibytes(amount: int) -> str:
    return f"{amount / GIB:.3g} GiB"


def duration(seconds: float, language: str) -> str:
    """A rough duration: `about 40 min`."""
    chinese = language == "zh"
    if seconds < 60:
        return "不到 1 分钟" if chinese else "less than a minute"
    for unit, most, english, word in ((60, 120, "min", "分钟"), (3600, 48, "h", "小时")):
        if seconds / unit < most:
            return f"约 {round(seconds / unit)} {word}" if chinese else f"about {round(seconds / unit)} {english}"
    return f"约 {round(seconds / 86400)} 天" if chinese else f"about {round(seconds / 86400)} days"
