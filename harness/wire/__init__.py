"""Kafka's protocol on its way: the proxy that holds single requests back, and the capture of messages.

capture     The capture as the harness holds it: one program that records all frames on a run's network.
capture_main  The process that looks at a run's network.
link        One connection of a client through the proxy, and the connection to the broker that carries it on.
packets     TCP packets that were seen, put together again as the streams of bytes that they carried.
proxy       The proxy as the harness holds it: its program, the rules in it, and what they did.
proxy_main  The process of the proxy.
recorded    Frames that were seen on a network, as rows of evidence.
responses   Responses that the proxy reads, makes or changes: error codes, refusals, addresses of brokers.
rules       Which requests the rules of the wire take (`core.wire`).
subjects    Whom and what a request concerns: transactional ids, groups, partitions.

What frames hold is for `harness.protocol`. Bytes from outside never end the process and never make it hold
more than a frame: FrameError is the one answer to what is not Kafka's protocol. A frame that needs no
decoding is passed on as it came.
"""
