"""aiokafka as a client of Inquest (--client "python examples/clients/aiokafka_client.py").

The library works in an event loop of its own thread. It has no call that gives up in time, so each is waited
for as long as its command may take. Its rebalances go on between polls; here they wait for the next poll, so
that what they say stands in the right place among the records.
"""

import asyncio
import threading
import time
import warnings
from contextlib import suppress

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalOperation, IllegalStateError, KafkaConnectionError, KafkaError
from aiokafka.helpers import create_ssl_context
from lines import Failed, LinesClient, polled, value

SECURITY = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
FILES = {"ssl.ca.location": "cafile", "ssl.certificate.location": "certfile"}
FILES |= {"ssl.key.location": "keyfile", "ssl.key.password": "password"}
SHORT_S = 0.2
"""How long a position that is not known is waited for."""


class Client(LinesClient, ConsumerRebalanceListener):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.producer = self.consumer = None
        self.started: set[int] = set()
        self.fresh = False
        """The transaction that `init` began, to have its producer id, is still to be used."""
        self.sending: asyncio.Task | None = None
        """Hands the records of the last `send` over; the one before it has ended then."""
        self.reports: set[asyncio.Future] = set()
        self.lost = 0
        """Records of the transaction that were not acknowledged. aiokafka commits the others."""

    def wait(self, coroutine, seconds: float):
        """What it returns. Raises: TimeoutError; what goes on then is not stopped."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def open(self, command: dict, seconds: float) -> dict:
        self.wait(self.made(command), seconds)
        return {"name": f"aiokafka {aiokafka.__version__}"}

    async def made(self, command: dict) -> None:
        self.polling = asyncio.Event()
        common = {"bootstrap_servers": command["bootstrap"], **secured(command["security"])}
        if p := command["client"]["producer"]:
            if p["retries"] == 0:
                raise ValueError("aiokafka sends again until its time is over: retries=0 is not possible")
            own = {"acks": p["acks"], "enable_idempotence": p["idempotent"], "linger_ms": p["linger_ms"]}
            if p["transactional_id"]:
                own |= {k: p[k] for k in ("transactional_id", "transaction_timeout_ms")}
            most = p["message_timeout_ms"] or 300_000
            self.producer = AIOKafkaProducer(**common, **own, request_timeout_ms=most)
        if c := command["client"]["consumer"]:
            own = {"group_id": c["group"], "auto_offset_reset": c["auto_offset_reset"]}
            own["isolation_level"] = "read_committed" if c["isolation"] else "read_uncommitted"
            own |= {"session_timeout_ms": c["session_timeout_ms"], "fetch_max_wait_ms": 100}
            own |= {"heartbeat_interval_ms": c["session_timeout_ms"] // 6, "enable_auto_commit": False}
            self.consumer = AIOKafkaConsumer(**common, **own)

    async def start(self, client, until: float) -> None:
        while id(client) not in self.started:
            try:
                await client.start()
                self.started.add(id(client))
            except KafkaConnectionError as error:  # no broker was found: nothing was asked
                if time.monotonic() > until:
                    raise Failed("_TRANSPORT", str(error)) from None
                await asyncio.sleep(0.2)

    def init(self, command: dict, seconds: float) -> None:
        async def begun() -> None:
            await self.start(self.producer, time.monotonic() + seconds / 2)
            await self.producer.begin_transaction()

        self.wait(begun(), seconds)
        self.fresh = True

    def send(self, command: dict, seconds: float) -> None:
        before = self.sending

        async def sent() -> None:
            if before:
                await before
            await self.start(self.producer, time.monotonic() + seconds)
            for n, record in enumerate(command["records"]):
                await self.handed_over(command["id"], n, record)

        async def begun() -> None:
            self.sending = asyncio.create_task(sent())

        self.wait(begun(), seconds)

    async def handed_over(self, send: int, number: int, record: dict) -> None:
        try:
            if self.fresh:
                raise IllegalOperation("no transaction was begun")
            one = await self.producer.send(record["topic"], value(record), partition=record["partition"])
        except Exception as error:  # noqa: BLE001 - it was not taken
            self.lost += 1
            self.report(send, number, "failed", code=code(error))
            return
        self.reports.add(one)
        one.add_done_callback(lambda done: self.reported(send, number, done))

    def reported(self, send: int, number: int, done: asyncio.Future) -> None:
        self.reports.discard(done)
        if (error := done.exception()) is not None:  # an attempt before the last may have been written
            self.lost += 1
            self.report(send, number, "unknown", code=code(error))
            return
        offset = done.result().offset if done.result() is not None else None
        self.report(send, number, "ok", -1 if offset is None else offset)

    def flush(self, command: dict, seconds: float) -> None:
        with suppress(TimeoutError):  # what has no report is unknown
            self.wait(self.flushed(), seconds)

    async def flushed(self) -> None:
        if self.sending:
            await self.sending
        while self.reports:
            await asyncio.wait(self.reports)

    def begin(self, command: dict, seconds: float) -> None:
        fresh, self.fresh, self.lost = self.fresh, False, 0
        if not fresh:
            self.wait(self.producer.begin_transaction(), seconds)

    def commit(self, command: dict, seconds: float) -> None:
        async def committed() -> None:
            await self.flushed()
            if self.lost:
                raise KafkaError(f"{self.lost} records of the transaction were not acknowledged")
            await self.producer.commit_transaction()

        self.wait(committed(), seconds)

    def abort(self, command: dict, seconds: float) -> None:
        self.wait(self.producer.abort_transaction(), seconds)

    def offsets_to_transaction(self, command: dict, seconds: float) -> None:
        """With the group's name alone: aiokafka sends no member and no generation, so that Kafka cannot tell
        a member that was put out of its group (KIP-447)."""
        group, offsets = self.consumer._group_id, positions(command["positions"])
        self.wait(self.producer.send_offsets_to_transaction(offsets, group), seconds)

    def subscribe(self, command: dict, seconds: float) -> None:
        self.wait(self.start(self.consumer, time.monotonic() + seconds / 2), seconds)
        self.loop.call_soon_threadsafe(lambda: self.consumer.subscribe(command["topics"], listener=self))

    def assign(self, command: dict, seconds: float) -> None:
        async def assigned() -> None:
            await self.start(self.consumer, time.monotonic() + seconds / 2)
            self.consumer.unsubscribe()
            self.consumer.assign(list(positions(command["positions"])))
            for tp, offset in positions(command["positions"]).items():
                if offset >= 0:
                    self.consumer.seek(tp, offset)

        self.wait(assigned(), seconds)

    def poll(self, command: dict, seconds: float) -> dict:
        async def got() -> list:
            self.polling.set()
            await asyncio.sleep(0)
            try:  # it waits for the end of a rebalance, however long that takes
                call = self.consumer.getmany(timeout_ms=seconds * 1000, max_records=command["max_records"])
                found = await asyncio.wait_for(call, seconds + SHORT_S)
            except TimeoutError:
                found = {}
            finally:
                self.polling.clear()
            return [record for records in found.values() for record in records]

        records = self.wait(got(), seconds + 1)
        return {"records": [polled(one.topic, one.partition, one.offset, one.value) for one in records]}

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.rebalanced("revoked", revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self.rebalanced("assigned", assigned)

    async def rebalanced(self, kind: str, those: set[TopicPartition]) -> None:
        await self.polling.wait()
        found = [{"topic": at.topic, "partition": at.partition} for at in sorted(those)]
        self.happened(kind, partitions=found)

    def position(self, command: dict, seconds: float) -> dict:
        async def position(tp: TopicPartition) -> int:
            try:
                return await asyncio.wait_for(self.consumer.position(tp), SHORT_S)
            except (TimeoutError, IllegalStateError):
                return -1

        async def found() -> dict:
            return {tp: await position(tp) for tp in self.consumer.assignment()}

        return answered(self.wait(found(), seconds))

    def committed(self, command: dict, seconds: float) -> dict:
        async def found() -> dict:
            await self.start(self.consumer, time.monotonic() + seconds / 2)
            return {tp: await self.consumer.committed(tp) for tp in positions(command["partitions"])}

        return answered(
            {tp: offset for tp, offset in self.wait(found(), seconds).items() if offset is not None}
        )

    def commit_offsets(self, command: dict, seconds: float) -> None:
        self.wait(self.consumer.commit(positions(command["positions"])), seconds)

    def seek(self, command: dict, seconds: float) -> None:
        async def sought() -> None:
            for tp, offset in positions(command["positions"]).items():
                self.consumer.seek(tp, offset)

        try:
            self.wait(sought(), seconds)
        except IllegalStateError as error:
            raise Failed(code(error), str(error)) from None

    def close(self, command: dict, seconds: float) -> None:
        if self.consumer and id(self.consumer) in self.started:
            self.wait(self.consumer.stop(), seconds)

    def failure(self, error: Exception) -> dict:
        if not isinstance(error, KafkaError):
            return super().failure(error)
        fatal = bool(self.producer) and self.producer._txn_manager.is_fatal_error()
        return {"code": code(error), "message": str(error)[:500], "fatal": fatal, "wants_abort": not fatal}


def code(error: BaseException) -> str:
    """Kafka's name of an error that a broker gave; else the library's."""
    return str(getattr(error, "message", "") or type(error).__name__)[:200]


def secured(given: dict) -> dict:
    """Settings of connections. Raises: ValueError, for what is not carried over."""
    if unknown := given.keys() - SECURITY.keys() - FILES.keys():
        raise ValueError(f"this client does not know {', '.join(sorted(unknown))}")
    files = {FILES[name]: text for name, text in given.items() if name in FILES}
    own = {SECURITY[name]: text for name, text in given.items() if name in SECURITY}
    if "SSL" in str(own.get("security_protocol")):
        own["ssl_context"] = create_ssl_context(**files)
    return own


def positions(given: list[dict]) -> dict[TopicPartition, int]:
    return {TopicPartition(at["topic"], at["partition"]): at.get("offset", -1) for at in given}


def answered(found: dict[TopicPartition, int]) -> dict:
    known = [{"topic": tp.topic, "partition": tp.partition, "offset": at} for tp, at in found.items()]
    return {"positions": known}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # clients that were not closed: what ends here is to end at once
    Client().serve()
