"""`inquest serve`: read-only, inside of the folder, on the loopback; and an index that is up to date."""

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from harness.nights.session_log import FILE, FOLDER, Tested
from harness.soak.serve import HOST, Server, server
from history.jsonl import Appender
from tests.harness.nights.made_sessions import LOST, MATRIX, by_hand, canary, outcome, task, write

RUN = "20260301T101500Z-queue-kill-42"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    by_hand(folder)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "results-2").mkdir()
    (tmp_path / "results-2" / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "latest").symlink_to(RUN)
    return folder


@pytest.fixture
def serving(results: Path) -> Iterator[Server]:
    with server(results, 0) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()


def ask(serving: Server, path: str, method: str = "GET", **headers: str) -> Answer:
    """One request; the path goes out as it is."""
    connection = http.client.HTTPConnection(HOST, serving.server_port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_it_listens_on_the_loopback_only(serving: Server) -> None:
    assert serving.server_address[0] == "127.0.0.1"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", ["/", "/index.html", "/?x=1"])
def test_the_index_comes_first(serving: Server, path: str) -> None:
    answer = ask(serving, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b"No session yet" in answer.body
    assert RUN.encode() in answer.body


@pytest.mark.parametrize(
    ("path", "kind", "policy"),
    [
        (f"/{RUN}/report.html", "text/html; charset=utf-8", "script-src 'unsafe-inline'"),
        (f"/{RUN}/verdict.json", "application/json", "sandbox"),
        (f"/{RUN}/journal/0.jsonl", "text/plain; charset=utf-8", "sandbox"),
        ("/latest/report.html", "text/html; charset=utf-8", "script-src 'unsafe-inline'"),
        (f"/{RUN}/", "text/html; charset=utf-8", "sandbox"),
    ],
)
def test_files_with_their_types_and_policies(serving: Server, path: str, kind: str, policy: str) -> None:
    answer = ask(serving, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert policy in answer.headers["content-security-policy"]
    assert int(answer.headers["content-length"]) == len(answer.body)
    head = ask(serving, path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == answer.headers["content-length"]


def test_pages_that_are_not_ours_run_no_script(serving: Server, results: Path) -> None:
    (results / "planted.html").write_text("<script>alert(1)</script>")
    policy = ask(serving, "/planted.html").headers["content-security-policy"]
    assert "script-src" not in policy
    assert "sandbox" in policy


@pytest.mark.parametrize(
    "path",
    [
        "/../secret", "/%2e%2e/secret", "/..%2fsecret", f"/{RUN}/../../secret", "/out", "/up/secret",
        "/up/", "/loop", "//../secret", "/../results-2/secret", "/%00", "/none", "/%ff", "/\\..\\secret",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_folder(serving: Server, path: str) -> None:
    answer = ask(serving, path)
    assert answer.status == 404
    assert b"secret" not in answer.body


def test_an_absolute_address_is_still_inside(serving: Server, tmp_path: Path) -> None:
    assert ask(serving, str(tmp_path / "secret")).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_is_read_only(serving: Server, results: Path, method: str) -> None:
    before = sorted(results.rglob("*"))
    assert ask(serving, f"/{RUN}/verdict.json", method).status == 501
    assert sorted(results.rglob("*")) == before


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "", "127.0.0.1.evil.example"])
def test_other_names_for_this_machine_are_refused(serving: Server, host: str) -> None:
    assert ask(serving, "/", Host=host).status == 421


@pytest.mark.sampled(5)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.1:8765", "localhost:1"])
def test_its_own_names_are_not(serving: Server, host: str) -> None:
    assert ask(serving, "/", Host=host).status == 200


@pytest.mark.sampled(8)
def test_the_index_follows_what_happens_in_the_folder(serving: Server, results: Path) -> None:
    assert b"1 open finding" not in ask(serving, "/").body
    write(results, "20260302T220000Z", [(canary(), outcome()), (task(), outcome("anomaly", LOST))])
    assert b"1 open finding" in ask(serving, "/").body
    assert "1 open finding" in (results / "index.html").read_text()
    by_hand(results, "20260303T101500Z-groups-kill-9", summary="another one")
    assert b"20260303T101500Z-groups-kill-9" in ask(serving, "/").body


@pytest.mark.sampled(10)
def test_a_report_that_comes_after_its_verdict_is_linked(serving: Server, results: Path) -> None:
    report = f"./{RUN}/report.html".encode()
    content = (results / RUN / "report.html").read_bytes()
    (results / RUN / "report.html").unlink()
    assert report not in ask(serving, "/").body
    (results / RUN / "report.html").write_bytes(content)
    assert report in ask(serving, "/").body


@pytest.mark.sampled(14)
def test_a_session_is_under_way_as_long_as_its_soak_lives(serving: Server, results: Path) -> None:
    session = write(results, "20260302T220000Z", [(canary(), outcome())], over=False)
    assert b"This session is unfinished" in ask(serving, "/").body
    log = Appender(results / FOLDER / session.name / FILE)
    assert b"This session is under way" in ask(serving, "/").body
    log.close()
    assert b"This session is unfinished" in ask(serving, "/").body


@pytest.mark.sampled(10)
def test_the_output_of_a_run_is_linked_while_it_goes_on(serving: Server, results: Path) -> None:
    session = write(results, "20260302T220000Z", [(canary(), None)], over=False)
    assert b"0001.log" not in ask(serving, "/").body
    (results / FOLDER / session.name / "0001.log").write_text("starting")
    assert b"0001.log" in ask(serving, "/").body


@pytest.mark.sampled(6)
def test_the_page_that_the_index_links_to_is_made_with_it(serving: Server, results: Path) -> None:
    old, new, third = (
        Tested(system="kafka", version=n, client="librdkafka") for n in ("3.9.1", "4.3.0", "4.3.1")
    )
    matrix: dict[str, Any] = MATRIX | {"systems": [{}, {}]}
    assert ask(serving, "/compared.html").status == 404
    runs = [(task(seed=1), outcome(tested=one)) for one in (old, new)]
    write(results, "20260301T220000Z", runs, matrix=matrix)
    assert b'href="./compared.html"' in ask(serving, "/").body
    answer = ask(serving, "/compared.html")
    assert (answer.status, b"4.3.0" in answer.body, b"4.3.1" in answer.body) == (200, True, False)
    assert "sandbox" not in answer.headers["content-security-policy"]
    write(results, "20260302T220000Z", [(task(seed=1), outcome(tested=third))], matrix=matrix)
    assert b"4.3.1" in ask(serving, "/compared.html").body, "whatever page was asked for before"


@pytest.mark.sampled(5)
def test_a_folder_whose_name_is_no_text(serving: Server, results: Path) -> None:
    (results / RUN).rename(results / os.fsdecode(b"20260301T101500Z-\xff"))
    answer = ask(serving, "/")
    assert answer.status == 200
    assert b"20260301T101500Z-%FF/report.html" in answer.body


def test_an_index_that_cannot_be_made_is_an_answer(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: Path) -> dict[str, str]:
        raise ZeroDivisionError("in the page")

    with Server(results, 0, fails) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        try:
            assert ask(made, "/").status == 500
            assert ask(made, f"/{RUN}/verdict.json").status == 200
        finally:
            made.shutdown()
            thread.join()
    assert "in the page" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["http://[", "http://[/index.html", "http://]/"])
def test_an_address_that_is_none_is_refused(serving: Server, target: str) -> None:
    with socket.create_connection((HOST, serving.server_port), timeout=30) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.split(b"\r\n")[0].endswith(b" 400 Bad Request")


@pytest.mark.sampled(6)
def test_an_index_that_is_up_to_date_is_not_made_again(serving: Server, results: Path) -> None:
    ask(serving, "/")
    (results / "index.html").write_text("as it was")
    ask(serving, "/")
    assert (results / "index.html").read_text() == "as it was"


def test_a_folder_is_listed_and_its_names_are_text(serving: Server, results: Path) -> None:
    (results / RUN / "<b>&.log").write_text("x")
    (results / RUN / os.fsdecode(b"odd-\xff.log")).write_text("y")
    answer = ask(serving, f"/{RUN}/")
    assert b"journal/" in answer.body
    assert b"<b>" not in answer.body
    assert ask(serving, f"/{RUN}/%3Cb%3E%26.log").body == b"x"
    assert b"&lt;b&gt;&amp;.log" in answer.body
    assert ask(serving, f"/{RUN}/odd-%FF.log").body == b"y"
    moved = ask(serving, f"/{RUN}")
    assert (moved.status, moved.headers["location"]) == (301, f"/{RUN}/")


def test_a_linked_index_of_a_folder_is_not_followed(serving: Server, results: Path, tmp_path: Path) -> None:
    (results / RUN / "index.html").symlink_to(tmp_path / "secret")
    answer = ask(serving, f"/{RUN}/")
    assert (answer.status, b"journal/" in answer.body) == (200, True)
    assert ask(serving, f"/{RUN}/index.html").status == 404


def test_what_is_neither_file_nor_folder_is_not_opened(serving: Server, results: Path) -> None:
    os.mkfifo(results / "pipe")
    assert ask(serving, "/pipe").status == 404


@pytest.mark.sampled(6)
def test_a_folder_that_cannot_be_written_is_served(results: Path, serving: Server) -> None:
    (results / "index.html").mkdir()  # so that no file can take the name
    assert ask(serving, "/").status == 200


def test_a_taken_port_is_one_clear_error(results: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} .*in use.*--port"):
            server(results, port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none(results: Path, port: int) -> None:
    with pytest.raises(UsageError, match="--port"):
        server(results, port)


def test_no_folder_no_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no results folder"):
        server(tmp_path / "none", 0)


def test_the_verdict_comes_as_it_is(serving: Server, results: Path) -> None:
    assert json.loads(ask(serving, f"/{RUN}/verdict.json").body)["seed"] == 42
