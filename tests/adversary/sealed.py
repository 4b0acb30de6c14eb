"""What was recorded of the small Kafka, as rows of the tables."""

from core.op import CommitKind
from history.tables import OPEN, TABLES
from tests.adversary.rows import F, Row
from tests.adversary.world import World


def tables(world: World) -> dict[str, list[Row]]:
    """All rows, with what follows from others: numbers of ops, places, outcomes of ops."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    rows["tps"] = [
        {"tp": log.tp, "topic": log.title, "partition": log.partition}
        for log in (*world.logs, *world.database, *world.past)
    ]
    rows["processes"], rows["bounds"] = world.processes, world.bounds
    rows["producers"] = world.producers
    done = sorted(world.ops, key=lambda op: (op.complete < 0, op.complete, op.invoke))
    for number, op in enumerate(done):
        complete = op.complete if op.complete >= 0 else OPEN
        level = world.processes[op.process]["isolation"]
        rows["ops"].append(
            {
                "op": number, "process": op.process, "f": F.index(op.f), "outcome": op.outcome,
                "phase": op.phase, "txn": int(op.txn), "deliberate": int(op.deliberate), "error": -1,
                "n_sends": len(op.sends), "n_reads": len(op.reads), "invoke_ns": op.invoke,
                "complete_ns": complete,
            }
        )  # fmt: skip
        of_op = {"op": number, "op_outcome": op.outcome}
        rows["sends"] += [row | of_op | {"txn": int(op.txn), "op_sends": len(op.sends)} for row in op.sends]
        rows["reads"] += [row | of_op | {"isolation": level, "phase": op.phase} for row in op.reads]
        rows["commits"] += [
            row | {"op": number} | ({"outcome": op.outcome} if row["kind"] == CommitKind.TXN else {})
            for row in op.commits
        ]
        rows["assignments"] += [row | {"op": number} for row in op.assigns]
        rows["foreign"] += [row | {"op": number} for row in op.foreign]
        rows["deliveries"] += [row | {"op": number} for row in op.deliveries]
        rows["acknowledgements"] += [row | {"op": number} for row in op.acknowledgements]
    settle(rows)
    return rows


def settle(rows: dict[str, list[Row]]) -> None:
    """Bring clustered rows into their order, and give each send its place."""
    lowest: dict[tuple[int, int], int] = {}
    for read in rows["reads"]:
        key = read["tp"], read["value"]
        lowest[key] = min(read["offset"], lowest.get(key, read["offset"]))
    for send in rows["sends"]:
        read_at = lowest.get((send["tp"], send["value"]), -1)
        send["place"] = send["offset"] if send["offset"] >= 0 else read_at
    rows["sends"].sort(key=lambda row: (row["tp"], row["op"], row["pos"]))
    rows["reads"].sort(key=lambda row: (row["tp"], row["process"], row["op"], row["pos"]))
    rows["assignments"].sort(key=lambda row: row["ns"])
