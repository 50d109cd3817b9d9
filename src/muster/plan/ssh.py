"""ssh between the nodes of a run: the texts of its configurations and of the programs that stand in for others.

Everything is the run's own. Nothing of the user's ~/.ssh is read or written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from muster.job import SECRET_NAME, Job
from muster.plan import compat
from muster.plan.node import File, Places, PlanError
from muster.plan.world import World

CLIENTS = ("ssh", "scp", "sftp")
ALIAS = "muster"  # the name under which all servers of a run show their key
# What a launcher itself needs, whatever its ranks are given later: its way to programs, and the marks of its run.
NEEDED = (
    *("PATH", "HOME", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
    *("MUSTER_RUN", "MUSTER_HOME"),
)

# No login may depend on what the user has set up for other purposes, hence neither PAM nor rc files nor passwords. A shell
# of the second level is one that leaves ~/.bashrc alone.
SERVER = """\
HostKey {host}
AuthorizedKeysFile {user}
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
UseDNS no
PermitUserRC no
PrintMotd no
PrintLastLog no
X11Forwarding no
AllowAgentForwarding no
AllowTcpForwarding {forwarding}
LoginGraceTime 30
LogLevel ERROR
Subsystem sftp internal-sftp
SetEnv MUSTER_RUN={run} SHLVL=1
"""

CLIENT = """\
Host *
  Port {port}
  HostKeyAlias {alias}
  IdentityFile {user}
  IdentitiesOnly yes
  IdentityAgent none
  BatchMode yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  KexAlgorithms curve25519-sha256
  LogLevel ERROR
"""

# Runs the first program of this name on the PATH that is not such a stand-in.
REAL = """\
IFS=:
for folder in $PATH; do
    if [ -x "$folder/{name}" ] && [ ! -e "$folder/muster-rank" ]; then
        exec "$folder/{name}" {options}"$@"
    fi
done
echo "muster: {name} is not on the PATH" >&2
exit 127
"""

STAND_IN = """\
#!/bin/sh
# {name} as it is between the nodes of this run.
"""

# Secrets are known by their names, and by a password in a URL. Each variable is one line here, whatever its value is.
HOROVODRUN = """\
#!/bin/sh
# horovodrun puts its environment on command lines, where everybody sees it. Secrets stay out of it, and so does what each
# node has of its own when the ranks are on other nodes: a login finds both on its node.
names() {{ env -0 | tr '\\n\\0' ' \\n' | grep -iE "$1" | sed 's/=.*//'; }}
hidden="{secrets} $(names '^([^=]*({secret})=|[^=]*=.*://[^/@ ]*:[^/@ ]*@)')"
case " $* " in *" -H "* | *" --hosts"* | *hostfile*) hidden="$hidden {own} $(names '^MUSTER_')" ;; esac
for name in $hidden; do
    case "$name" in {needed} | *[!A-Za-z0-9_]*) ;; *) unset "$name" ;; esac
done
"""

RANK = """\
#!/bin/sh
# A rank that a launcher started: in the directory of its node, with its number and a log of its own.
MUSTER_RANK=${HOROVOD_RANK:-$OMPI_COMM_WORLD_RANK}
MUSTER_LOCAL_RANK=${HOROVOD_LOCAL_RANK:-$OMPI_COMM_WORLD_LOCAL_RANK}
MUSTER_LAUNCHED=1  # by which its agent knows whom to tell that the run is being stopped
export MUSTER_RANK MUSTER_LOCAL_RANK MUSTER_LAUNCHED
[ -z "$TMPDIR" ] || export TMPDIR="${TMPDIR%/muster-mpi-*}"  # that of Open MPI itself is no place for ranks
exec >> "${MUSTER_RESULTS%/*}/logs/rank-$MUSTER_RANK.log" 2>&1
cd "${MUSTER_WORK:-.}" && exec "$@"
"""


def configurations(job: Job, world: World, folder: str) -> tuple[File, ...]:
    """The configurations of a node's server and clients, which lie beside its keys."""
    if not job.ssh and not job.login:
        return ()
    if job.ssh and not world.ssh_port:
        raise PlanError("no port for ssh is free on all nodes: end other runs on these machines, or set `ssh: false`")
    forwarding = "local" if job.login else "no"  # editors reach what they start on the node
    server = SERVER.format(
        host=_quoted(folder + "/host"), user=_path(folder + "/user.pub"), run=world.run, forwarding=forwarding
    )
    files = (File(folder + "/sshd_config", server),)
    return (*files, File(folder + "/config", client(job, world, folder))) if job.ssh else files


def client(job: Job, world: World, folder: str) -> str:
    hosts = ""
    for node in world.nodes:
        names = [f"node-{node.index}", *compat.of(job).names(job, world.run, node.index)]  # the first stands in hostfiles
        hosts += f"Host {' '.join(names)}\n  HostName {node.address}\n"
    known = _path(folder + "/known_hosts")
    return hosts + CLIENT.format(port=world.ssh_port, alias=ALIAS, user=_path(folder + "/user"), known=known)


def files(job: Job, places: Places, own: Iterable[str]) -> tuple[File, ...]:
    """Programs that stand in for others on a node; `own` are the variables that Muster gives each node."""
    if not job.ssh:
        return ()
    options = "-F {} -o StrictHostKeyChecking=yes ".format(shlex.quote(places.ssh + "/config"))
    texts = {name: STAND_IN.format(name=name) + REAL.format(name=name, options=options) for name in CLIENTS}
    hidden = {"secrets": " ".join(job.secrets), "secret": SECRET_NAME, "own": " ".join(own), "needed": " | ".join(NEEDED)}
    texts["horovodrun"] = HOROVODRUN.format(**hidden) + REAL.format(name="horovodrun", options="")
    texts["muster-rank"] = RANK
    return tuple(File(f"{places.bin}/{name}", text, 0o755) for name, text in texts.items())


def prefix(job: Job, places: Places) -> dict[str, tuple[str, ...]]:
    """The stand-ins come first on the PATH."""
    return {"PATH": (places.bin,)} if job.ssh else {}


def _path(path: str) -> str:
    """A path where `%` has a meaning."""
    return _quoted(path.replace("%", "%%"))


def _quoted(path: str) -> str:
    return '"{}"'.format(path.replace("\\", "\\\\").replace('"', '\\"'))
