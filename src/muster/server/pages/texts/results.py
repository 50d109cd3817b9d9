"""Texts of choices on the pages of results; elements that hold both languages have theirs in the templates."""

TEXTS: dict[str, tuple[str, str]] = {
    "results.any": ("all", "全部"),
    "results.sort.received": ("newest", "最新"),
    "results.sort.model": ("model", "模型"),
    "results.sort.submitter": ("submitter", "提交者"),
    "results.sort.value": ("value", "数值"),
    "results.sort.accuracy": ("accuracy", "精度"),
    "results.sort.samples_per_joule": ("samples/J", "能效"),
    "results.sort.nodes": ("nodes", "节点数"),
}
