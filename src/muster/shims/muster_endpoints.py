"""TensorBoard and Jupyter as endpoints of a run, started by its agent with the job's own Python.

Both listen on loopback, which neighbours on the machine reach, too: each answers those alone who show its token.
"""

import hmac
import json
import os
import shutil
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, Iterable, List
from urllib.parse import parse_qsl, urlencode

TOKEN = "MUSTER_ENDPOINT_TOKEN"
NO_TOKEN = b"This TensorBoard belongs to a run of Muster. Open it with `muster endpoints`, or from the page of the run.\n"
Report = Callable[..., None]


def main(argv: List[str]) -> None:
    """`NAME REPORT PORT [LOGDIR]`: serves until a signal; a line of JSON on the descriptor REPORT says how it began."""
    name, report, port, rest = argv[0], int(argv[1]), int(argv[2]), argv[3:]
    token = os.environ.pop(TOKEN)
    try:
        if name == "tensorboard":
            tensorboard(_report(report), port, token, *rest)
        else:
            jupyter(_report(report), port, token)
    except ImportError as error:
        package = "tensorboard" if name == "tensorboard" else "jupyterlab"
        if (error.name or "").partition(".")[0] in (package, "notebook"):
            reason = f"{package} is not installed for {sys.executable}; run `{sys.executable} -m pip install {package}`"
        else:
            reason = f"{package} of {sys.executable} cannot be imported: {error}"
        _report(report)(failed=reason)
        sys.exit(1)


def _report(descriptor: int) -> Report:
    def report(**fields: Any) -> None:
        os.write(descriptor, json.dumps(fields).encode() + b"\n")
        os.close(descriptor)

    return report


def tensorboard(report: Report, port: int, token: str, logdir: str) -> None:
    from tensorboard import default, program

    def guarded(app: Any, flags: Any) -> Any:
        return program.WerkzeugServer(guard(app, token, port), flags)

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=guarded)
    # Its faster loader is a server of its own on loopback, which asks nobody for a token.
    words = ["tensorboard", "--logdir", logdir, "--host", "127.0.0.1", "--port", str(port), "--load_fast", "false"]
    board.configure(argv=words)
    board.launch()
    report(ready=True)
    threading.Event().wait()


def guard(app: Any, token: str, port: int) -> Any:
    """A WSGI application that lets those in who show the token: in a header, in the query once, then in a cookie."""
    cookie = f"muster-endpoint-{port}"

    def guarded(environ: Dict[str, Any], start: Any) -> Iterable[bytes]:
        cookies = dict(part.strip().partition("=")[::2] for part in environ.get("HTTP_COOKIE", "").split(";"))
        if _same(environ.get("HTTP_X_MUSTER_TOKEN", ""), token) or _same(cookies.get(cookie, ""), token):
            answer: Iterable[bytes] = app(environ, start)
            return answer
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if environ.get("REQUEST_METHOD") == "GET" and _same(dict(query).get("token", ""), token):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            target = "/" + environ.get("PATH_INFO", "/").lstrip("/") + ("?" + rest if rest else "")
            kept = f"{cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
            start("302 Found", [("Location", target), ("Set-Cookie", kept), ("Content-Length", "0")])
            return [b""]
        start("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", str(len(NO_TOKEN)))])
        return [NO_TOKEN]

    return guarded


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def jupyter(report: Report, port: int, token: str) -> None:
    try:
        from jupyterlab.labapp import LabApp as App
    except ImportError:
        from notebook.app import JupyterNotebookApp as App
    private = tempfile.mkdtemp(prefix="muster-jupyter-")
    os.environ.update(JUPYTER_TOKEN=token, JUPYTER_RUNTIME_DIR=private)
    if not os.access(os.path.expanduser("~"), os.W_OK):
        names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
        os.environ.update({name: os.path.join(private, name.lower()) for name in names})
    settings = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.allow_remote_access": True,  # the host name is that of the server, which checks it
        "ServerApp.root_dir": os.getcwd(),
        "ServerApp.quit_button": False,
        "KernelManager.transport": "ipc",  # whoever reaches a kernel's TCP port reads its output
        "LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "LabApp.news_url": "None",
    }
    try:
        app = App.initialize_server(argv=["--{}={}".format(*pair) for pair in settings.items()])
        report(ready=True)
        app.start()
    finally:
        shutil.rmtree(private, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
