"""The entry of the command line: finds the command, imports it alone, and shows errors in one place."""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from typing import Any

import click

from muster import __version__

MOMENT = 0.001  # seconds

# Each command with what it does, in English and Chinese; `muster --help` imports none of them.
COMMANDS = {
    "run": ("Run a job and follow it.", "运行作业并跟踪输出"),
    "bench": ("Measure a job: complete numbers, or why not.", "测量作业：完整的数字，或说明原因"),
    "ps": ("List runs.", "列出运行"),
    "show": ("Show one run: state, reason, ranks, results.", "查看一次运行：状态、原因、各 rank、结果"),
    "logs": ("Show or follow the logs of a run.", "查看或跟踪日志"),
    "wait": ("Wait for a run to end.", "等待运行结束"),
    "stop": ("Stop a run.", "停止运行"),
    "reconcile": ("Finish runs whose supervisors were killed.", "处理监督进程已失联的运行"),
    "rerun": ("Run a recorded job again, with its code as it was.", "用当时的代码重新运行"),
    "exec": ("Run a command beside a rank, with its environment.", "在某个 rank 的节点和环境中执行命令"),
    "ssh": ("Open a shell beside a rank.", "在某个 rank 旁打开终端"),
    "endpoints": ("List what of a run can be reached.", "列出运行的端点（TensorBoard、Jupyter 等）"),
    "connect": ("Connect to an endpoint or a port of a run.", "连接运行的端点或端口"),
    "report": ("Show what runs were worth, as a page, a table or data.", "生成结果报告：网页、表格或数据"),
    "verify": ("Check a bundle: sums, signature, every aggregate.", "校验结果包：校验和、签名和各项汇总"),
    "tester": ("Collect results from many machines, or send them.", "收集或提交测试结果"),
    "serve": ("Serve accounts, projects and runs to many people.", "启动多用户服务器"),
    "login": ("Log in at a server.", "登录服务器"),
    "logout": ("Log out at a server.", "退出服务器"),
    "queue": ("Show what waits on a server, and why.", "查看服务器的等待队列及原因"),
    "pause": ("Pause a run of a server.", "暂停服务器上的运行"),
    "resume": ("Let a paused run of a server go on.", "恢复暂停的运行"),
    "templates": ("List, save and delete job templates of a server.", "管理服务器的作业模板"),
    "usage": ("Show device hours by project, user, pool, kind or day.", "查看各项目、用户的设备使用时长"),
    "pin": ("Keep a run of a server from being deleted as old.", "保留运行，不被自动清理"),
    "unpin": ("Leave a run of a server to the retention of its project.", "取消保留运行"),
    "users": ("List, add, disable and reset users of a server.", "管理服务器的用户"),
    "projects": ("List and change projects of a server.", "管理服务器的项目及成员"),
    "pools": ("Show pools of a server and their nodes; drain them.", "查看资源池及节点，停止或恢复调度"),
    "tokens": ("List, add and revoke your tokens at a server.", "管理自己的令牌"),
    "keys": ("List, add and revoke access keys of a server's store.", "管理存储的访问密钥"),
    "buckets": ("List, add, share and limit a server's buckets.", "管理存储的桶"),
    "import": ("Make a job file of an AISBench package.", "由 AISBench 负载包生成作业文件"),
    "pack": ("Make an AISBench package of a workload.", "制作 AISBench 负载包"),
    "cp": ("Copy files and directories to and from stores.", "在本地与存储之间复制文件和目录"),
    "sync": ("Make one directory or prefix like another.", "同步目录或前缀"),
    "ls": ("List what is in a directory, a prefix or a store.", "列出目录、前缀或存储中的内容"),
    "rm": ("Delete the records of runs, or files in stores.", "删除运行记录或存储中的文件"),
    "prune": ("Delete old records and code that nothing uses.", "清理旧记录和无用代码"),
    "doctor": ("Say what this machine or hosts have, and what is missing.", "检查本机或主机的环境"),
    "schema": ("Print the JSON Schema of job files.", "输出作业文件的 JSON Schema"),
    "ranktable": ("Print an HCCL rank table.", "生成 HCCL rank table"),
    "moxing-path": ("Print the directory that lets scripts import moxing.", "输出让脚本可以 import moxing 的目录"),
    "completion": ("Print the completion script for a shell.", "输出 shell 补全脚本"),
}


def language() -> str:
    """The language of messages, en or zh, by the first variable that is set of those that decide it."""
    found = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next((value for value in found if value), "").startswith("zh") else "en"


class Muster(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"muster.cli.{name.replace('-', '_')}_command").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            from muster.job.kinds import nearest

            meant = nearest(name, list(COMMANDS))
            hint = f"did you mean `{meant}`?" if meant else "`muster --help` lists the commands"
            raise click.UsageError(f"`{name}` is not a command; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        chinese = language() == "zh"
        with formatter.section("命令" if chinese else "Commands"):
            formatter.write_dl([(name, texts[chinese]) for name, texts in COMMANDS.items()])


@click.command(cls=Muster, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="muster")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Run distributed training jobs anywhere, and find out whether they pass muster.

    \b
    Examples:
      muster run job.yaml                                  run a job and follow it
      muster run --nodes 2 --devices 4 -- python train.py  run this directory without a job file
      muster bench job.yaml                                measure it, and say whether the numbers hold
      muster ps                                            list runs
      muster logs last --follow                            follow the newest run
      muster COMMAND --help                                more about a command
    """


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    _open_standard_streams()
    _hear_interrupts()
    code = 1
    try:
        code = cli.main(standalone_mode=False) or 0
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.exceptions.NoArgsIsHelpError as help:
        help.show()  # nothing was typed that could hold a password
        code = 2
    except click.ClickException as error:
        from muster.cli.errors import show_usage

        show_usage(error)
        code = 2
    except (KeyboardInterrupt, click.Abort):
        exec("")  # else, had it come in an exec (every dataclass is made by one), Python would kill itself by the signal again
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has gone
        code = 141
    except Exception as error:
        if "--debug" in sys.argv[1:2]:
            raise
        from muster.cli.errors import show

        code = show(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    gc.freeze()  # else Python looks through all objects for cycles when it ends, which takes several milliseconds
    sys.exit(code)


def _open_standard_streams() -> None:
    """Sees to it that the descriptors 0 to 2 are there, so that no file takes the place of a closed one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w"))
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _hear_interrupts() -> None:
    """Ctrl-C comes a second time where Python ignores it: at the end of an import, say, or while an object is deleted."""
    signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))

    def again(ignored: sys.UnraisableHookArgs) -> None:
        if ignored.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            sys.__unraisablehook__(ignored)

    sys.unraisablehook = again


if __name__ == "__main__":
    main()
