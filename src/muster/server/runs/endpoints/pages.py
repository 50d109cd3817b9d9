"""The few pages of the server's own on the origins of endpoints: how one enters, and why one cannot."""

import base64
import hashlib
from html import escape

from starlette.responses import Response

STYLE = "body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:34em;padding:0 1em;color:#222}a{color:#0b57d0}"
STYLE += "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}a{color:#8ab4f8}}"
DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{DIGEST}'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">{more}'
    "<title>{title}</title><style>{style}</style><h1>{title}</h1><p>{text}</p><p lang=zh>{chinese}</p>{link}</html>"
)

NO_ENTRY = (
    401,
    "Open this endpoint again",
    "This address works for a browser that came from the page of its run. Open the endpoint there, or with `muster endpoints`.",
    "请从运行页面打开此端点，或使用 `muster endpoints`。",
)
SPENT = (
    403,
    "This link was used or has expired",
    "A link to an endpoint works once, for half a minute. Open the endpoint again from the page of its run.",
    "该链接只能使用一次，且半分钟内有效。请从运行页面重新打开端点。",
)
OTHER_PAGE = (
    403,
    "This request came from another page",
    "Only pages of this endpoint itself may ask it for something.",
    "只有此端点自己的页面才能发出请求。",
)
ENDED = (410, "The run has ended", "What it served is gone with it.", "运行已结束，其服务已关闭。")
DENIED = (403, "You may not enter any more", "Your login has ended, or your role was changed.", "登录已失效，或权限已变更。")
BUSY = (503, "Too many connections", "Close some pages of this endpoint, and try again.", "连接过多，请关闭一些页面后重试。")
NOT_UP = (503, "The endpoint is not up", "{reason}. This page tries again by itself.", "端点尚未就绪，本页会自动重试。")
BROKEN = (502, "The endpoint does not answer", "{reason}.", "端点没有正确响应。")
Words = tuple[int, str, str, str]


def page(words: Words, url: str, reason: str = "", again: bool = False) -> Response:
    """A page with a way back to the server."""
    status, title, text, chinese = words
    link = f'<p><a href="{escape(url)}" rel="noreferrer">{escape(url)}</a></p>'
    more = '<meta http-equiv="refresh" content="5">' if again else ""
    shown = text.replace("{reason}", reason)
    html = PAGE.format(title=escape(title), text=escape(shown), chinese=escape(chinese), style=STYLE, link=link, more=more)
    return Response(html, status, HEADERS, "text/html")


def entering(path: str) -> Response:
    """Leads to the endpoint. A redirect would not do: a browser that comes from another site sends no strict cookie."""
    more = f'<meta http-equiv="refresh" content="0; url={escape(path)}">'
    html = PAGE.format(title="Opening…", text="", chinese="", style=STYLE, link=f'<a href="{escape(path)}">…</a>', more=more)
    return Response(html, 200, HEADERS, "text/html")
