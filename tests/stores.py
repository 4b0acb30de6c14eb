"""A local S3 server for tests, on the loopback, with an empty bucket."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest

BUCKET = "inquest"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """The server; the environment that its clients need. The calling process has it while this runs."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "inquest",
        "AWS_SECRET_ACCESS_KEY": "inquest-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            S3FileSystem.clear_instance_cache()
            reset = Request(f"http://{host}:{port}/moto-api/reset", method="POST")
            urlopen(reset, timeout=30).close()  # servers of one process share what they hold
            S3FileSystem(use_listings_cache=False).mkdir(BUCKET)
            yield environment
    finally:
        S3FileSystem.clear_instance_cache()
        server.stop()
