"""Texts of the endpoints of a job: what it serves, and the terminal beside a rank."""

TEXTS: dict[str, tuple[str, str]] = {
    "job.tab.endpoints": ("Endpoints", "访问入口"),
    "endpoints.title": ("What this job serves", "作业提供的服务"),
    "endpoints.list": ("Endpoints of the job", "作业的访问入口"),
    "endpoints.login": ("Logins by ssh", "SSH 登录"),
    "endpoints.where": ("node {node}, port {port}", "节点 {node}，端口 {port}"),
    "endpoints.where.node": ("node {node}", "节点 {node}"),
    "endpoints.open": ("Open", "打开"),
    "endpoints.open.title": ("Opens in a new tab", "在新标签页中打开"),
    "endpoints.log": ("Its log", "查看日志"),
    "endpoints.copy": ("Copy", "复制"),
    # states, and what they mean
    "endpoints.state.starting": ("starting", "启动中"),
    "endpoints.state.waiting": ("waiting", "等待中"),
    "endpoints.state.ready": ("ready", "可用"),
    "endpoints.state.failed": ("failed", "失败"),
    "endpoints.state.ended": ("ended", "已结束"),
    "endpoints.says.later": ("It starts with the job.", "随作业一起启动。"),
    "endpoints.says.starting": ("It was started, and does not listen yet.", "已启动，尚未开始监听。"),
    "endpoints.says.waiting": ("Nothing of the job listens at this port yet.", "作业尚未监听该端口。"),
    "endpoints.says.ready": ("It can be opened.", "可以打开。"),
    "endpoints.says.login": ("ssh and editors can log in.", "可通过 ssh 或编辑器登录。"),
    "endpoints.says.failed": ("It has ended, or could not be started.", "已退出或无法启动。"),
    "endpoints.says.ended": ("The job has ended.", "作业已结束。"),
    "endpoints.only": (
        "Only the owner of the job, managers of its project and administrators can open them.",
        "只有作业所有者、项目管理员和系统管理员可以打开。",
    ),
    "endpoints.no_domain": (
        "This server has no domain for endpoints, so browsers cannot open them: run the command beside each on your own"
        " machine, or have the server started with `--endpoints-domain`.",
        "此服务器没有为访问入口配置域名，浏览器无法直接打开：请在自己的机器上执行旁边的命令，或在启动服务器时加上"
        " `--endpoints-domain`。",
    ),
    # none yet
    "endpoints.none": ("This job serves nothing", "此作业没有访问入口"),
    "endpoints.none.how": (
        "A job asks for TensorBoard, Jupyter, services of its own and logins for editors in its job file:",
        "在作业文件中可以申请 TensorBoard、Jupyter、自己的服务，以及供编辑器使用的登录：",
    ),
    "endpoints.none.terminal": ("The terminal needs none of it.", "终端无需这些设置。"),
    # environments
    "endpoints.environment": ("Your environment", "您的环境"),
    "endpoints.environment.none": (
        "This environment has no Jupyter; work in a terminal.",
        "此环境没有 Jupyter，请使用终端。",
    ),
    "endpoints.idle": ("It ends when nobody has used it for {limit}.", "连续 {limit} 无人使用时将自动结束。"),
    "endpoints.idle.never": (
        "It has no idle limit: it goes on until it is stopped.",
        "没有设置空闲时限：会一直运行，直到被停止。",
    ),
    # on one's own machine
    "endpoints.own": ("On your own machine", "在您自己的机器上"),
    "endpoints.own.shell": (
        "A shell beside a rank; `--rank N` names another one.",
        "在 rank 旁打开终端；用 `--rank N` 指定其他 rank。",
    ),
    "endpoints.own.config": (
        "For ssh, scp and editors: writes the key of this job, and a block for `~/.ssh/config`.",
        "供 ssh、scp 和编辑器使用：写入此作业的密钥，并生成 `~/.ssh/config` 配置。",
    ),
    "endpoints.own.proxy": (
        "The line of that block with which editors connect.",
        "该配置中编辑器用于连接的一行。",
    ),
    "endpoints.own.no_login": (
        "Editors log in by ssh where the job has `login: true`.",
        "作业设置 `login: true` 后，编辑器可通过 ssh 登录。",
    ),
    # the terminal
    "terminal.title": ("Terminal", "终端"),
    "terminal.rank": ("Beside rank", "所在 rank"),
    "terminal.open": ("Open terminal", "打开终端"),
    "terminal.close": ("Close terminal", "关闭终端"),
    "terminal.screen": ("Terminal beside a rank", "rank 旁的终端"),
    "terminal.later": ("A terminal can be opened once the job runs.", "作业开始运行后可以打开终端。"),
    "terminal.past": ("The job has ended; there is nothing left to log in to.", "作业已结束，无法再打开终端。"),
    "terminal.opening": ("Opening …", "正在打开…"),
    "terminal.going": (
        "Connected to rank {rank}. Shift+F6 leaves the terminal.",
        "已连接到 rank {rank}。按 Shift+F6 离开终端。",
    ),
    "terminal.over": ("The shell ended with exit code {code}.", "终端已退出，退出码 {code}。"),
    "terminal.refused": ("The server closed the terminal: {reason}", "服务器关闭了终端：{reason}"),
    "terminal.lost": ("The connection was lost; open it again.", "连接已断开，请重新打开。"),
    "terminal.run_ended": ("The job has ended, and this terminal with it.", "作业已结束，此终端也随之结束。"),
}
