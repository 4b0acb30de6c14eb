"""The shorthand `docker`: hooks by the program `docker`, whose engine has a container for each node.

`cut` and `mend` are there for root of the engine's machine: rules of the firewall in the container's network,
in chains of their own. A cut from clients leaves the other nodes alone, also where they use the same port.
Where a container shares the network of the machine, rules would hit all that uses it: `cut` fails, and does
nothing.
"""

import os
import shutil
from collections.abc import Mapping
from typing import Final

STATE: Final = 'set -eu; state=$(docker inspect -f "{{.State.Running}} {{.State.Paused}}" "$INQUEST_NAME")'
_FREEZE: Final = """tries=25
until said=$(docker pause "$INQUEST_NAME" 2>&1); do
    tries=$((tries - 1))
    case $tries:$said in 0:*) ;; *"unable to freeze"*) sleep 0.2; continue;; esac
    echo "$said" >&2; exit 1
done"""
"""The engine gives up early on a busy process: tried for 5 s."""
HOOKS: Final[Mapping[str, str]] = {
    "kill": STATE + '; case $state in true*) docker kill "$INQUEST_NAME";; esac',
    "revive": 'docker start "$INQUEST_NAME"',
    "shut_down": 'docker stop -t 25 "$INQUEST_NAME"',
    "pause": STATE + f'\ncase $state in *" true") exit 0;; esac\n{_FREEZE}',
    "resume": STATE + '; case $state in *" true") docker unpause "$INQUEST_NAME";; esac',
    "collect": 'set -eu; docker logs "$INQUEST_NAME" >"$INQUEST_TARGET/server.log" 2>&1',
}
DISKS: Final = """
root=/proc/$(docker inspect -f "{{.State.Pid}}" "$INQUEST_NAME")/root
number=0
echo "$INQUEST_LOG_DIRS" | tr , "\\n" | while read -r dir; do
    into=$INQUEST_TARGET/data
    case $INQUEST_LOG_DIRS in *,*) number=$((number + 1)) into=$into/$number; mkdir -p "$into";; esac
    if [ -r "$root$dir" ]; then
        tar -C "$root$dir" --exclude="*.index" --exclude="*.timeindex" -cf - . | tar -C "$into" -xf -
    else
        docker cp "$INQUEST_NAME:$dir/." "$into" >/dev/null
    fi
done"""
"""After `collect`, where the file has `log_dirs`: several are copied into folders of their own. Root of the
engine's machine leaves out the indexes, which are 20 MB for each partition; an engine copies them, too."""
_BOX: Final = """set -eu
box=$(docker inspect -f "{{.NetworkSettings.SandboxKey}}" "$INQUEST_NAME")
within() { nsenter --net="$box" "$@"; }
"""
CUT: Final = (
    _BOX
    + """
each="{{.State.Running}} {{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
addresses() {
    found=$(docker inspect -f "$each" "$1")
    case $found in
    *[0-9]*) ;;
    true*) echo "the container $1 has no address of its own: it cannot be cut off alone" >&2; exit 3;;
    esac  # one that does not run has none, and is cut when it is started
    echo "${found#* }"
}
its=$(addresses "$INQUEST_NAME")
inside='{{range $in, $out := .NetworkSettings.Ports}}{{range $out}}{{.HostPort}} {{$in}}
{{end}}{{end}}'
port=$(docker inspect -f "$inside" "$INQUEST_NAME" | sed -n "s|^$INQUEST_PORT ||p" | head -1)
port=${port%/*}
rules=$(echo "$INQUEST_CUTS" | while read -r direction peer listener; do
    [ -z "$listener" ] || { echo "the shorthand docker cuts no single listener" >&2; exit 3; }
    case $direction in in) chain=INQUEST-IN end=-s to=--dport;; *) chain=INQUEST-OUT end=-d to=--sport;; esac
    [ "$peer" != clients ] || continue
    found=$(addresses "$peer")
    for one in $found; do echo "-A $chain $end $one -j DROP"; done
done
echo "$INQUEST_CUTS" | while read -r direction peer listener; do
    [ "$peer" = clients ] || continue
    case $direction in in) chain=INQUEST-IN end=-s to=--dport;; *) chain=INQUEST-OUT end=-d to=--sport;; esac
    for other in $INQUEST_NAMES; do
        found=$(addresses "$other")
        for one in $found; do echo "-A $chain $end $one -j RETURN"; done
    done
    echo "-A $chain -p tcp $to ${port:-$INQUEST_PORT} -j DROP"
done)
printf '*filter\\n:INQUEST-IN - [0:0]\\n:INQUEST-OUT - [0:0]\\n%s\\nCOMMIT\\n' "$rules" |
    within iptables-restore -w --noflush
within iptables -w -C INPUT -j INQUEST-IN 2>/dev/null || within iptables -w -I INPUT -j INQUEST-IN
within iptables -w -C OUTPUT -j INQUEST-OUT 2>/dev/null || within iptables -w -I OUTPUT -j INQUEST-OUT
"""
)
MEND: Final = (
    _BOX
    + """
[ -e "$box" ] || exit 0  # a container that does not run has no rules
for pair in "INPUT INQUEST-IN" "OUTPUT INQUEST-OUT"; do
    set -- $pair
    within iptables -w -S "$2" >/dev/null 2>&1 || continue
    while within iptables -w -D "$1" -j "$2" 2>/dev/null; do :; done
    within iptables -w -F "$2"
    within iptables -w -X "$2"
done
"""
)
PROGRAMS: Final = ("nsenter", "iptables", "iptables-restore")


def docker_hooks(*, disks: bool) -> dict[str, str]:
    """The hooks. disks: `collect` brings log directories, too."""
    made = dict(HOOKS)
    if disks:
        made["collect"] += DISKS
    if os.geteuid() == 0 and all(map(shutil.which, PROGRAMS)):
        made |= {"cut": CUT, "mend": MEND}
    return made
