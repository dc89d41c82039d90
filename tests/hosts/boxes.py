"""Three hosts on one machine, each with processes, folders and an address of its own, and sshd: real enough for `ray up`.

Everything is in namespaces of the kernel, and this module runs inside of one of its own (`inside`), whose first process is
ours: when that ends, however it ends, the kernel ends all that is in it, and takes networks and folders away. The
addresses exist in there only. Each host has its own processes because `ray up` runs `ray stop`, which ends every Ray that
it can see.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAPTOP = "10.99.0.1"
HEAD, *WORKERS = HOSTS = ("10.99.0.11", "10.99.0.12", "10.99.0.13")
NEEDED = ("unshare", "setpriv", "mount", "ip", "sshd", "ssh", "ssh-keygen", "rsync")
MASKED = ("/tmp", "/root", "/run", "/dev/shm")  # what a host must not share with another
KEPT = "/mnt"  # seen by all: where what lay below a masked folder is kept, and the key that lets in
_UNSHARE = ("unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")

_SSHD = f"""
Port 22
HostKey /run/host_key
AuthorizedKeysFile {KEPT}/key.pub
PasswordAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS no
PidFile none
"""


def why_not() -> str | None:
    """Why this machine cannot have them, None if it can."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"{', '.join(missing)} not found (Debian: openssh-server, rsync, iproute2)"
    tried = subprocess.run(
        [*_UNSHARE, "sh", "-ec", "ip link add one type veth peer name other; mount -t tmpfs none /mnt"],
        check=False,
        capture_output=True,
        text=True,
    )
    return None if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


def inside(module: str, *arguments: str) -> list[str]:
    """The command that runs a module in the namespaces in which `start` may be called; it ends with its parent."""
    return ["setpriv", "--pdeathsig", "KILL", *_UNSHARE, sys.executable, "-m", module, *arguments]


def start() -> None:
    """Mask this process's own folders, as a laptop's, and bring up the network and the hosts."""
    _keep()
    _shell(_masking())
    _shell(f"ssh-keygen -q -t ed25519 -N '' -f /root/key && cp /root/key.pub {KEPT}/key.pub")
    _shell(
        f"ip link set lo up; ip link add boxes type bridge; ip addr add {LAPTOP}/24 dev boxes; ip link set boxes up"
    )
    for host in HOSTS:
        _host(host)
    for host in HOSTS:
        _wait(f"ssh to {host}", lambda host=host: ssh(host, "true").returncode == 0)


def cut(host: str, *, off: bool) -> None:
    """Take a host's cable out, or put it back."""
    _shell(f"ip link set {_cable(host)} {'down' if off else 'up'}")


def ssh(host: str, command: str) -> "subprocess.CompletedProcess[str]":
    """Run there, as root."""
    return subprocess.run(
        ["ssh", *options(), f"root@{host}", command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def options() -> list[str]:
    """Of ssh, to get in without a question."""
    return [
        *("-i", "/root/key", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
        *("-o", "LogLevel=ERROR", "-o", "ConnectTimeout=5"),
    ]


def name_of(host: str) -> str:
    """What it calls itself."""
    return f"box-{host.rpartition('.')[2]}"


def _host(host: str) -> None:
    script = f"""
        hostname {name_of(host)}
        {_masking()}
        mkdir -p /run/sshd
        ssh-keygen -q -t ed25519 -N '' -f /run/host_key
        cat > /run/sshd_config <<'END'{_SSHD}END
        ip link set lo up
        until ip link show eth0 >/dev/null 2>&1; do sleep 0.1; done
        ip addr add {host}/24 dev eth0; ip link set eth0 up; ip route add default via {LAPTOP}
        exec "$(command -v sshd)" -D -e -f /run/sshd_config
    """
    with Path(KEPT, f"{host}.log").open("w") as log:
        made = subprocess.Popen([*_UNSHARE, "bash", "-ec", script], stdout=log, stderr=log)
    children = Path(f"/proc/{made.pid}/task/{made.pid}/children")
    _wait(f"the namespaces of {host}", lambda: children.read_text().strip())
    first = children.read_text().split()[0]
    _wait("its network", lambda: os.readlink(f"/proc/{first}/ns/net") != os.readlink("/proc/self/ns/net"))
    _shell(
        f"ip link add {_cable(host)} type veth peer name eth0 netns {first}; "
        f"ip link set {_cable(host)} master boxes; ip link set {_cable(host)} up"
    )


def _cable(host: str) -> str:
    return f"cable-{host.rpartition('.')[2]}"


def _keep() -> None:
    """What we run from may lie below a masked folder: have it elsewhere too."""
    _shell(f"mount -t tmpfs none {KEPT}")
    for place, path in enumerate(_ours()):
        _shell(f"mkdir {KEPT}/{place}; mount --rbind {path} {KEPT}/{place}")


def _masking() -> str:
    masks = [f"mount -t tmpfs none {folder}" for folder in MASKED]
    back = [f"mkdir -p {path}; mount --rbind {KEPT}/{place} {path}" for place, path in enumerate(_ours())]
    return "\n".join([*masks, "chmod 1777 /tmp /dev/shm", f"echo {_exports()!r} > /root/.bashrc", *back])


def _ours() -> list[str]:
    found = {str(Path(path).resolve()) for path in (ROOT, sys.prefix, sys.base_prefix)}
    return sorted(path for path in found if path.startswith(tuple(f"{folder}/" for folder in MASKED)))


def _exports() -> str:
    """What a machine needs to be told to compute right goes along."""
    told = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
    return "; ".join(f"export {name}={value}" for name, value in told.items()) or ":"


def _shell(script: str) -> None:
    subprocess.run(["bash", "-ec", script], check=True)


def _wait(what: str, happened: object, deadline_s: float = 60) -> None:
    end_s = time.monotonic() + deadline_s
    while not happened():  # type: ignore[operator]
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what} did not come in {deadline_s:g} s")
        time.sleep(0.1)
