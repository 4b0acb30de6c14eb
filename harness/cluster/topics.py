"""Topics that a session creates, over confluent-kafka's AdminClient.

Not here: the topics of a run as its set-up makes them (`kafka`), which errors are definite (`outcomes`).
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from harness.cluster.bounded import Expired, bounded
from harness.cluster.outcomes import EXPIRED, Failure, Verb, outcome
from harness.cluster.producer import failure_of
from harness.cluster.sidelight import Sidelight
from harness.session import Indefinite


class SessionTopics:
    """One admin client."""

    def __init__(self, settings: Mapping[str, Any], sidelight: Sidelight) -> None:
        configuration: dict[str, Any] = {
            **settings,
            "error_cb": sidelight.error,
            "logger": sidelight,
        }
        self._client = AdminClient(configuration)

    def create(
        self,
        topic: str,
        partitions: int,
        replication: int,
        settings: Mapping[str, str],
        seconds: float,
    ) -> None:
        """Create a topic, asked once; returns when the controller says that it has.

        librdkafka may wait for a controller that does not answer beyond the time it is given.
        """
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication,
            config=dict(settings),
        )

        def answered() -> None:
            futures = self._client.create_topics(
                [new], operation_timeout=seconds, request_timeout=seconds
            )
            futures[topic].result()

        try:
            bounded(seconds, answered)
        except Expired:
            raise Indefinite(EXPIRED, "the controller did not answer") from None
        except ValueError as error:  # confluent-kafka's own checks of the arguments
            refused = Failure(code="_INVALID_ARG", message=str(error))
            raise outcome(Verb.CREATE_TOPIC, refused) from None
        except (KafkaException, SystemError) as error:
            raise outcome(Verb.CREATE_TOPIC, failure_of(error)) from None
