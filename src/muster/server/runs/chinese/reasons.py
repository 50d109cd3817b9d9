"""Reasons of runs: by supervisors, engines and the queue."""

_RANK = "rank {rank:d} on node {NODE}"
_RANK_ZH = "节点 {NODE} 上的 rank {rank}"
_PROCESS = "{process:w} on node {NODE}"
_PROCESS_ZH = "节点 {NODE} 上的 {process}"


def _of_processes(english: str, chinese: str) -> dict[str, str]:
    """The same of a rank and of another process."""
    return {f"{_RANK} {english}": f"{_RANK_ZH} {chinese}", f"{_PROCESS} {english}": f"{_PROCESS_ZH} {chinese}"}


TEXTS: dict[str, str] = {
    # the queue
    "it waits to be started": "等待启动",
    "it is being started": "正在启动",
    "it is just being created": "正在创建",
    "it has just been submitted": "刚刚提交",
    "it is tried again to start it: {said}": "正在重试启动：{said}",
    "it continues when its turn has come": "轮到它时会继续运行",
    "it made room for a run that cannot be preempted": "为不可抢占的运行让出了资源",
    "it has waited longer than its queue_limit": "等待时间超过了 queue_limit",
    "it comes after {run:w}, which should have {wanted:w}; it is {STATE:w}": (
        "它排在 {run} 之后，要求后者 {wanted}，而后者的状态为 {STATE}"
    ),
    "continues after attempt {number:d} ({REASON})": "第 {number} 次尝试后继续（{REASON}）",
    "continues after attempt {number:d}": "第 {number} 次尝试后继续",
    "submitted again after attempt {number:d} ({REASON})": "第 {number} 次尝试后重新提交（{REASON}）",
    "requeued after attempt {number:d} ({REASON})": "第 {number} 次尝试后重新排队（{REASON}）",
    "requeued after attempt {number:d}": "第 {number} 次尝试后重新排队",
    "interrupted in attempt {number:d} ({REASON})": "在第 {number} 次尝试中被中断（{REASON}）",
    "interrupted in attempt {number:d}": "在第 {number} 次尝试中被中断",
    "preempted": "被抢占",
    "its `secrets` cannot be read: these had another key than the secrets.key that the server has now": (
        "无法读取其 `secrets`：加密它们的密钥与服务器现有的 secrets.key 不同"
    ),
    "submit it again, with its secrets": "请带上其 secrets 重新提交",
    # it is on its way
    "{up:d} of {nodes:d} nodes are up": "{nodes} 个节点中已就绪 {up} 个",
    "waiting for devices: {said}": "等待设备：{said}",
    "its ranks have ended, and the numbers in their logs are being read": "各 rank 已结束，正在读取日志中的数值",
    "held for debugging until {until}: {REASON}": "为调试保留至 {until}：{REASON}",
    # people
    "stopped by {user:w}": "被 {user} 停止",
    "paused by {user:w}": "被 {user} 暂停",
    "stopped": "已停止",
    "stopped before it started": "启动前已被停止",
    "it had been stopped before an older database was put back": "在恢复较早的数据库之前就已被停止",
    "its devices were idle for {time} (under 5 %), and the project {project:q} stops such runs after {limit}": (
        "其设备已空闲 {time}（低于 5 %），项目 {project} 会停止空闲超过 {limit} 的运行"
    ),
    # the end
    "{REASON} (attempt {number:d} of {most:d})": "{REASON}（第 {number} 次尝试，共 {most} 次）",
    "all {ranks:d} ranks succeeded": "全部 {ranks} 个 rank 均已成功",
    "its rank succeeded": "其 rank 已成功",
    "its command succeeded": "其命令已成功",
    "it took longer than its time limit of {limit}": "运行时间超过了时限 {limit}",
    "nothing was written for {time} (silent_limit)": "{time} 内没有任何输出（silent_limit）",
    "the stacks of its ranks are in {path}": "各 rank 的调用栈在 {path}",
    "the stacks of its ranks are at the end of their logs": "各 rank 的调用栈在其日志末尾",
    "node {nodes} did not report within {limit}": "节点 {nodes} 未在 {limit} 内报告",
    "the agent of node {node:d} {said}": "节点 {node} 的代理：{said}",
    "the attempt ended for an unknown reason": "该次尝试因未知原因结束",
    "its record is gone: the directory of the run was deleted": "其记录已不存在：运行目录被删除",
    "its record is damaged: {said}": "其记录已损坏：{said}",
    "it was cut off {times:d} times before one of its ranks had started": "在任何 rank 启动之前已中断 {times} 次",
    "the last time: {REASON}": "最近一次：{REASON}",
    "the disk of its run directory is full": "运行目录所在磁盘已满",
    "the kernel's counters show out of memory": "内核计数显示内存不足",
    "the kernel had killed another process of its node for memory": "内核曾因内存不足终止该节点上的另一个进程",
    # failures of processes; what they said themselves stays
    **_of_processes("exited with code {code:d}", "以退出码 {code} 结束"),
    **_of_processes("exited with code {code:d} (128 + {signal:w})", "以退出码 {code}（128 + {signal}）结束"),
    **_of_processes("exited with code {code:d} (128 + {signal:w}): {said}", "以退出码 {code}（128 + {signal}）结束：{said}"),
    **_of_processes("exited with code {code:d}: {said}", "以退出码 {code} 结束：{said}"),
    **_of_processes("was killed ({signal:w})", "被 {signal} 终止"),
    **_of_processes("was killed ({signal:w}): {said}", "被 {signal} 终止：{said}"),
    **_of_processes("could not be started: {said}", "无法启动：{said}"),
    **_of_processes("failed: {said}", "失败：{said}"),
    "the processes of node {NODE} used {used} together, more than the job's {limit:q}": (
        "节点 {NODE} 上的进程共使用 {used}，超过了作业的 {limit}"
    ),
    "the code could not be brought to node {NODE} (code {code:d}): {said}": "代码无法送达节点 {NODE}（退出码 {code}）：{said}",
    "the inputs of node {NODE} could not be fetched: {said}": "无法获取节点 {NODE} 的输入：{said}",
    "the outputs of node {NODE} could not be uploaded and are kept in its directory: {said}": (
        "节点 {NODE} 的输出无法上传，已保留在其目录中：{said}"
    ),
    "{number:d} ({host:w})": "{number}（{host}）",  # a node with its host
    # states within sentences
    "succeeded": "成功",
    "failed": "失败",
    "lost": "丢失",
    "damaged": "损坏",
}
