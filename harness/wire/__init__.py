"""Kafka's protocol as it goes over the wire: frames, and what they hold.

bounds      Whether a payload can be decoded safely: every length in it fits into the bytes that are there.
frames      Where a frame ends in a stream of bytes, and what its header says.
payloads    What frames hold, by Kafka's own schemas: requests and responses as Python values, and back.
did. proxy_main  The process of the proxy.

Bytes from outside never end the process and never make it hold more than a frame: FrameError is the one
answer to what is not Kafka's protocol. A frame that nobody has to understand is passed on as it came.
"""
