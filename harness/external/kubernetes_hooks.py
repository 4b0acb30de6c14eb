"""The shorthand `kubernetes`: hooks by the program `kubectl`, of the user's PATH and configuration.

What Kubernetes does on its own decides what they can mean:

- A node's program that ends is started again at once, in the same pod, or in a new one where the pod was
  deleted. So `revive` waits until it runs: not until the pod is ready, which takes a quorum that other faults
  may hold down. A container that ended several times waits before each start, up to five minutes; one in a
  new pod does not.
- `kill` is SIGKILL from inside the container, and in force when the kubelet has seen the end. Deletion by
  force is not that: it sends SIGTERM first, and returns while the program may work on, beside the next one.
- No signal from inside reaches process 1 of a container, neither SIGKILL nor SIGSTOP. Where the node's
  program is process 1, `kill`, `pause` and `resume` do not exist (`kubernetes_pods` looks).
- `cut` and `mend` do not exist: whether a NetworkPolicy is in force depends on the network's plugin, which
  may leave open connections alone.
"""

from collections.abc import Mapping
from typing import Final

_FIND: Final = """
pid= oldest=
for place in /proc/[0-9]*; do
    { read -r name <"$place/comm" && read -r line <"$place/stat"; } 2>/dev/null || continue
    case $name in java|redpanda) ;; *) continue;; esac
    set -- ${line##*) }
    [ "$1" != Z ] && shift 19 || continue
    [ -n "$pid" ] && [ "$oldest" -le "$1" ] || { pid=${place#/proc/} oldest=$1; }
done
stands() { read -r line <"/proc/$pid/stat" && case ${line##*) } in T*) ;; *) false;; esac; }
"""
"""In a container: `pid` is the node's program, the oldest process of its name, "" = there is none. It needs a
shell and its builtins. The state, and the time of the start 19 words later: proc(5)."""
SIGNALLED: Final = (
    _FIND
    + """
[ -n "$pid" ] || { echo "no process java or redpanda is in the container" >&2; exit 3; }
one="its program is process 1 of its container, which no signal from inside stops"
[ "$pid" != 1 ] || { echo "$one" >&2; exit 3; }
kill -0 "$pid" || exit 3
"""
)
"""The same, where signals reach it; else an exit code other than 0, and why."""
_ASK: Final = """set -eu
ask() { kubectl ${INQUEST_CONTEXT:+"--context=$INQUEST_CONTEXT"} --namespace="$INQUEST_NAMESPACE" "$@"; }
inside() { ask exec "$INQUEST_NAME" --container="$INQUEST_CONTAINER" -- sh -c "$@"; }
field() { ask get pod "$INQUEST_NAME" --ignore-not-found --output="jsonpath=$1"; }
its='{.status.containerStatuses[?(@.name=="'$INQUEST_CONTAINER'")]'
runs() { field "$its.state.running.startedAt} {.metadata.uid} $its.containerID}"; }
"""
"""`runs` tells one start of the container from another; where it does not run, that begins with a blank."""
_KILL: Final = """
before=$(runs)
case $before in "" | " "*) exit 0;; esac
code=0  # the end of the container may end this command with any other
said=$(inside 'SIGNALLED kill -KILL "$pid"' 2>&1) || code=$?
[ "$code" != 3 ] || { echo "$said" >&2; exit 1; }
ends=$(($(date +%s) + 15))
while now=$(runs) || exit 1; [ "$now" = "$before" ]; do
    [ "$(date +%s)" -lt "$ends" ] || { echo "the container did not end: $said" >&2; exit 1; }
    sleep 0.2
done
"""
_REVIVE: Final = """
last=
while :; do
    now=$(field "{.metadata.deletionTimestamp}/$its.state.running.startedAt}/$its.state.waiting.reason}")
    case $now in
        /[0-9]*) exit 0;;
        //CrashLoopBackOff*) ask delete pod "$INQUEST_NAME" --ignore-not-found;;
    esac
    [ "$now" = "$last" ] || echo "pod $INQUEST_NAME: ${now:-there is none}"
    last=$now
    sleep 0.5
done
"""
_RESUME: Final = """
now=$(runs)
case $now in "" | " "*) exit 0;; esac  # what does not run does not stand still
inside 'FIND
[ -n "$pid" ] && [ "$pid" != 1 ] || exit 0
kill -CONT "$pid"; while stands; do sleep 0.1; done'
"""
_COLLECT: Final = """
one() { ask logs "$INQUEST_NAME" --container="$INQUEST_CONTAINER" "$@"; }
{ one --previous 2>/dev/null || true; one; } >"$INQUEST_TARGET/server.log"
"""
"""With the log of the container before this one; of earlier ones and of earlier pods there is none."""
_DISKS: Final = """
whole=$INQUEST_TARGET/whole number=0
IFS=,; set -f; set -- $INQUEST_LOG_DIRS; set +f; unset IFS
for dir; do
    into=$INQUEST_TARGET/data
    [ $# = 1 ] || { number=$((number + 1)) into=$into/$number; mkdir -p "$into"; }
    { inside 'tar -C "$1" --exclude="*.index" --exclude="*.timeindex" -cf - . || [ $? = 1 ]' \\
        sh "$dir" && : >"$whole"; } | tar -C "$into" -xf -
    [ -e "$whole" ] || { echo "the copy of $dir broke off" >&2; exit 1; }
    rm "$whole"
done
"""
"""After `collect`, where the file has `log_dirs`: several are copied into folders of their own. A copy that
broke off is none. tar ends with 1 where a file changed, which is for `disks` to judge."""


def kubernetes_hooks(*, disks: bool) -> Mapping[str, str]:
    """The hooks. disks: `collect` brings log directories, too."""
    made = {
        "kill": _KILL,
        "revive": _REVIVE,
        "shut_down": 'ask delete pod "$INQUEST_NAME" --ignore-not-found',
        "pause": "inside 'SIGNALLED kill -STOP \"$pid\"; until stands; do sleep 0.1; done'",
        "resume": _RESUME,
        "collect": _COLLECT + (_DISKS if disks else ""),
    }
    return {
        name: _ASK + text.replace("SIGNALLED", SIGNALLED).replace("FIND", _FIND)
        for name, text in made.items()
    }
