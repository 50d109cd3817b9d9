"""Texts of the start page."""

TEXTS: dict[str, tuple[str, str]] = {
    "home.title": ("Home", "首页"),
    "home.going": ("Running", "正在运行"),
    "home.waiting": ("Waiting", "排队等待"),
    "home.failed": ("Last failures", "最近失败"),
    "home.none.going": ("Nothing of yours runs now.", "您目前没有正在运行的作业。"),
    "home.none.waiting": ("Nothing of yours waits.", "您目前没有排队的作业。"),
    "home.none.failed": ("Nothing of yours failed.", "您没有失败的作业。"),
    "home.position": ("place {place} in the queue of {pool}", "在 {pool} 的队列中排第 {place} 位"),
    "home.quota": ("Quota used", "配额使用"),
    "home.quota.own": ("yours", "个人"),
    "home.all": ("All of your jobs", "我的全部作业"),
    "home.first": ("You have no jobs yet", "您还没有作业"),
    "home.first.how": (
        "Fill in a form, or log in on a command line and submit one there; it appears here at once.",
        "请填写表单提交，或在命令行登录后提交，作业会立即显示在此处。",
    ),
}
