"""confluent-kafka as a client of Inquest (--client "python examples/clients/confluent_client.py")."""

import time
from functools import partial

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from lines import Failed, LinesClient, bounded, polled, value

COMMON = {"log_level": 0, "reconnect.backoff.max.ms": 500, "socket.connection.setup.timeout.ms": 1000}
OTHER = {"idempotent": "enable.idempotence", "in_flight": "max.in.flight"}
OTHER["batch_records"] = "batch.num.messages"


class Client(LinesClient):
    def open(self, command: dict, seconds: float) -> dict:
        common = {**COMMON, "bootstrap.servers": command["bootstrap"], **command["security"]}
        common["error_cb"] = self.error
        if p := command["client"]["producer"]:
            own = {OTHER.get(k, k.replace("_", ".")): v for k, v in p.items() if v is not None}
            if not p["transactional_id"]:
                del own["transaction.timeout.ms"]
            self.producer = Producer({**common, **own})
        if c := command["client"]["consumer"]:
            own = {k.replace("_", "."): c[k] for k in ("auto_offset_reset", "session_timeout_ms")}
            own["heartbeat.interval.ms"] = c["session_timeout_ms"] // 6
            own["isolation.level"] = "read_committed" if c["isolation"] else "read_uncommitted"
            fixed = {"group.id": c["group"] or "none", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
            self.consumer = Consumer({**common, **own, **fixed})
        return {"name": f"confluent-kafka {confluent_kafka.__version__}"}

    def init(self, command: dict, seconds: float) -> None:
        self.local(self.producer.init_transactions, seconds)

    def send(self, command: dict, seconds: float) -> None:
        for n, record in enumerate(command["records"]):
            reported = partial(self.reported, command["id"], n)
            try:
                at = {"partition": record["partition"], "on_delivery": reported}
                self.producer.produce(record["topic"], value(record), **at)
            except (KafkaException, BufferError) as error:  # it was not taken
                self.report(command["id"], n, "failed", code=str(error)[:200])

    def reported(self, send: int, record: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            self.report(send, record, "ok", -1 if offset is None else offset)
        else:  # it is of the last attempt: an earlier one may have been written
            self.report(send, record, "unknown", code=error.name())

    def flush(self, command: dict, seconds: float) -> None:
        self.producer.flush(seconds)

    def begin(self, command: dict, seconds: float) -> None:
        self.local(self.producer.begin_transaction)

    def commit(self, command: dict, seconds: float) -> None:
        self.producer.commit_transaction(seconds)

    def abort(self, command: dict, seconds: float) -> None:
        self.producer.abort_transaction(seconds)

    def offsets_to_transaction(self, command: dict, seconds: float) -> None:
        group, offsets = self.consumer.consumer_group_metadata(), partitions(command["positions"])
        bounded(seconds, self.producer.send_offsets_to_transaction, offsets, group, seconds)

    def subscribe(self, command: dict, seconds: float) -> None:
        changes = {"on_assign": "assigned", "on_revoke": "revoked", "on_lost": "lost"}
        heard = {hook: partial(self.rebalanced, kind) for hook, kind in changes.items()}
        self.local(self.consumer.subscribe, command["topics"], **heard)

    def assign(self, command: dict, seconds: float) -> None:
        self.local(self.consumer.unsubscribe)
        self.local(self.consumer.assign, partitions(command["positions"]))

    def poll(self, command: dict, seconds: float) -> dict:
        self.returned, most = 0, command["max_records"]
        first = self.consumer.poll(seconds)
        self.returned = int(first is not None and first.error() is None)
        messages = [] if first is None else [first, *(self.consumer.consume(most - 1, 0) if most > 1 else ())]
        for message in messages:
            if message.error() is not None:
                self.error(message.error())
        whole = [m for m in messages if m.error() is None]
        return {"records": [polled(m.topic(), m.partition(), m.offset(), m.value()) for m in whole]}

    def position(self, command: dict, seconds: float) -> dict:
        return positions(self.consumer.position(self.consumer.assignment()))

    def committed(self, command: dict, seconds: float) -> dict:
        return positions(self.consumer.committed(partitions(command["partitions"]), seconds))

    def commit_offsets(self, command: dict, seconds: float) -> None:
        offsets = partitions(command["positions"])
        for at in bounded(seconds, self.consumer.commit, offsets=offsets, asynchronous=False):
            if at.error is not None:
                raise KafkaException(at.error)

    def seek(self, command: dict, seconds: float) -> None:
        until = time.monotonic() + seconds
        for place in partitions(command["positions"]):
            while True:
                try:
                    self.local(self.consumer.seek, place)
                    break
                except Failed:  # librdkafka starts in the background what it is assigned
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.01)

    def close(self, command: dict, seconds: float) -> None:
        if hasattr(self, "consumer"):
            bounded(seconds, self.consumer.close)

    def local(self, call, *arguments, **named) -> None:
        """What fails here had no effect in the cluster."""
        try:
            call(*arguments, **named)
        except KafkaException as error:
            raise Failed(error.args[0].name(), error.args[0].str()) from None

    def rebalanced(self, kind: str, _: Consumer, those: list[TopicPartition]) -> None:
        found = [{"topic": at.topic, "partition": at.partition} for at in those]
        self.happened(kind, partitions=found, after=self.returned)

    def error(self, error: KafkaError) -> None:
        self.happened("error", code=error.name(), message=error.str()[:500])

    def failure(self, error: Exception) -> dict:
        if not isinstance(error, KafkaException):
            return super().failure(error)
        cause = error.args[0]
        end = {"fatal": cause.fatal(), "wants_abort": cause.txn_requires_abort()}
        return {"code": cause.name(), "message": cause.str()[:500], **end}


def partitions(given: list[dict]) -> list[TopicPartition]:
    return [TopicPartition(at["topic"], at["partition"], at.get("offset", -1001)) for at in given]


def positions(found: list[TopicPartition]) -> dict:
    known = [{"topic": at.topic, "partition": at.partition, "offset": max(at.offset, -1)} for at in found]
    return {"positions": known}


if __name__ == "__main__":
    Client().serve()
