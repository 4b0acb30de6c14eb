"""Kafka's protocol as it goes over the wire: frames, and what they hold.

bounds      Whether a payload can be decoded safely: every length in it fits into the bytes that are there.
capture     The capture as the harness holds it: one program that records all frames on a run's network.
capture_main  The process that looks at a run's network.
encoding    Requests and responses from plain values, straight to bytes, by Kafka's own schemas.
frames      Where a frame ends in a stream of bytes, and what its header says.
link        One connection of a client through the proxy, and the connection to the broker that carries it on.
packets     TCP packets that were seen, put together again as the streams of bytes that they carried.
payloads    What frames hold, by Kafka's own schemas: requests and responses as Python values, and back.
proxy       The proxy as the harness holds it: its program, the rules in it, and what they did.
proxy_main  The process of the proxy.
recorded    Frames that were seen on a network, as rows of evidence.
responses   Responses that the proxy reads, makes or changes: error codes, refusals, addresses of brokers.
rules       Which requests the rules of the wire take (`core.wire`).
schemas     Kafka's schemas, field by field, as kio's generated classes have them.
subjects    Whom and what a request concerns: transactional ids, groups, partitions.

Bytes from outside never end the process and never make it hold more than a frame: FrameError is the one
answer to what is not Kafka's protocol. A frame that needs no decoding is passed on as it came.
"""
