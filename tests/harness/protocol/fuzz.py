"""Damaged frames against the codec: `python -m tests.harness.protocol.fuzz [--frames 1000000] [--seed 1]`.

Each frame holds a request or a response of a random API and version with random values, may be damaged, and
arrives in pieces. It may raise FrameError only, and memory stays bounded: the process may not have more
than MEMORY bytes. A frame without damage has to be read as what it was made of. Printed: what happened to
all.
"""

import argparse
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator

from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import RequestPayload, ResponsePayload

from harness.protocol.frames import FrameError, Splitter, correlation_id, request_header
from harness.protocol.payloads import decode_request, decode_response, request_type, response_type
from tests.harness.protocol.kio_frames import encode_request, encode_response
from tests.harness.protocol.random_payloads import damaged, payload

Kind = type[RequestPayload] | type[ResponsePayload]

MEMORY = 2 << 30
LIMIT = 1 << 20


def outcomes(
    rng: random.Random, sound: bytes, kind: type[RequestPayload] | type[ResponsePayload]
) -> Iterator[str]:
    """What happens to a frame with damage, in words."""
    data = damaged(rng, sound)
    splitter, cut = Splitter(LIMIT), rng.randrange(len(data))
    try:
        whole = [*splitter.feed(data[:cut]), *splitter.feed(data[cut:])]
    except FrameError:
        yield "refused by size"
        return
    assert splitter.held <= len(data)
    if not whole:
        yield "not whole"
    for one in whole:
        try:
            request_header(one), correlation_id(one)
            read(one, kind)
            yield "read as sound" if one == sound else "read"
        except FrameError:
            yield "refused"


def read(data: bytes, kind: Kind) -> object:
    """The payload of a frame. Raises: FrameError."""
    if kind.__name__.endswith("Request"):
        return decode_request(data, kind)  # type: ignore[arg-type]
    return decode_response(data, kind)


def made(rng: random.Random, api_key: int, version: int) -> tuple[bytes, Kind]:
    """A frame, and the schema that it was made by; it is read as it was made."""
    if rng.random() < 0.5:
        asked = request_type(api_key, version)
        assert asked is not None
        request = payload(rng, asked)
        data = encode_request(request, 7, "client")
        assert decode_request(data, asked) == request
        return data, asked
    answered = response_type(api_key, version)
    assert answered is not None
    response = payload(rng, answered)
    data = encode_response(response, 7)
    assert decode_response(data, answered) == response
    return data, answered


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = random.Random(given.seed)
    kinds = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]
    became: Counter[str] = Counter()
    begin = time.process_time()
    while became.total() < given.frames:
        sound, kind = made(rng, *rng.choice(kinds))
        for _ in range(10):
            became.update(outcomes(rng, sound, kind))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    told = ", ".join(f"{what} {count}" for what, count in became.most_common())
    print(f"{became.total()} frames in {time.process_time() - begin:.0f} CPU s, at most {peak} MiB: {told}")


if __name__ == "__main__":
    main()
