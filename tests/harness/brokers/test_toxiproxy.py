"""Toxiproxy before a small echo server: what each toxic does to a connection, and that it is cured.

The tests with a server need its program; where there is neither one nor Go to build it, they are
skipped, and say so.
"""

import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.capabilities import Toxic
from core.errors import ClusterError
from harness.brokers import toxiproxy
from harness.brokers.addresses import Plan, reserve
from harness.brokers.toxiproxy import Route, ToxiproxyServer
from harness.processes.guard import Guard
from tests.waiting import until

DEADLINE_S = 60.0


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets; `got` has the sizes of what came at once."""

    got: list[int]

    def handle(self) -> None:
        assert isinstance(self.request, socket.socket)
        try:
            while data := self.request.recv(65536):
                self.got.append(len(data))
                self.request.sendall(data)
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@pytest.fixture(scope="module")
def program() -> str:
    try:
        return toxiproxy.ensure()
    except ClusterError as error:
        pytest.skip(str(error))


@pytest.fixture
def ports() -> Iterator[Plan]:
    """Ports that no other process takes meanwhile, as a run has them."""
    plan = reserve()
    yield plan
    plan.release()


def route(ports: Plan) -> Route:
    """To where nobody listens."""
    return Route(ports.advertised(1), ports.behind(1))


class Bench:
    """Two brokers that echo, behind proxies; `dial(node)` connects to one. got: by the first."""

    def __init__(self, program: str) -> None:
        self.got: list[int] = []
        self.servers = {
            node: Server(("127.0.0.1", 0), type("Handler", (Echo,), {"got": got}))
            for node, got in ((1, self.got), (2, []))
        }
        self._ports = reserve()
        self.routes = {
            node: Route(self._ports.advertised(node), server.server_address[1])
            for node, server in self.servers.items()
        }
        self.proxies = ToxiproxyServer(program, self._ports.toxiproxy, self.routes)
        for server in self.servers.values():
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def dial(self, node: int = 1) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.routes[node].listen), DEADLINE_S)

    def close(self) -> None:
        self.proxies.stop()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()
        self._ports.release()


@pytest.fixture(scope="module")
def module_bench(program: str) -> Iterator[Bench]:
    bench = Bench(program)
    yield bench
    bench.close()


@pytest.fixture
def bench(module_bench: Bench) -> Iterator[Bench]:
    module_bench.got.clear()
    yield module_bench
    module_bench.proxies.cure([1, 2])


def exchange(connection: socket.socket, data: bytes = b"hello") -> float:
    """Seconds until all of it came back. Raises: OSError, where it does not."""
    begin = time.monotonic()
    connection.sendall(data)
    left = len(data)
    while left:
        chunk = connection.recv(left)
        if not chunk:
            raise ConnectionError("closed")
        left -= len(chunk)
    return time.monotonic() - begin


def quick(connection: socket.socket) -> bool:
    """One exchange of twenty takes less time than any toxic here would add (the machine may be
    loaded, so not every one has to)."""
    return any(exchange(connection) < 0.1 for _ in range(20))


def silent(connection: socket.socket, seconds: float = 0.3) -> bool:
    """Nothing comes within this time, and the connection stays open."""
    connection.settimeout(seconds)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(DEADLINE_S)
    return False


def gone(act: Callable[[], object]) -> bool:
    """The connection is closed or reset under `act`."""
    try:
        act()
    except (ConnectionError, TimeoutError) as error:
        return not isinstance(error, TimeoutError)
    return False


def toxic(type_: str, downstream: bool = True, **attributes: int) -> Toxic:
    return Toxic(type=type_, attributes=attributes, downstream=downstream)


@contextmanager
def poisoned(bench: Bench, *toxics: Toxic) -> Iterator[None]:
    """In force for node 1; afterwards both brokers must be as good as new."""
    with bench.dial(2) as other:
        exchange(other)
        bench.proxies.poison([1], toxics)
        yield
        assert quick(other), "the other broker's link is none of this one's"
    bench.proxies.cure([1])
    with bench.dial() as fresh:
        assert quick(fresh)
        assert sum(exchange(fresh, b"x" * 60_000) for _ in range(10)) < 20  # 30 s at 20 KB/s


def test_a_proxy_without_toxics_passes_everything(bench: Bench) -> None:
    with bench.dial() as connection:
        assert quick(connection)
        assert exchange(connection, os.urandom(300_000)) < 20


def test_latency_is_added_also_to_connections_that_exist(bench: Bench) -> None:
    with bench.dial() as connection:
        exchange(connection)
        with poisoned(bench, toxic("latency", latency=200, jitter=50)):
            assert all(exchange(connection) > 0.14 for _ in range(3))
        assert quick(connection)


def test_bandwidth_limits_the_direction_it_is_for(bench: Bench) -> None:
    with poisoned(bench, toxic("bandwidth", downstream=False, rate=20)), bench.dial() as connection:
        assert exchange(connection, b"x" * 20_000) > 0.8
    with poisoned(bench, toxic("bandwidth", rate=2)), bench.dial() as connection:
        bench.got.clear()
        begin = time.monotonic()
        connection.sendall(b"x" * 60_000)
        until(lambda: sum(bench.got) == 60_000, "what was sent arrives")
        assert time.monotonic() - begin < 20  # 30 s at 2 KB/s


def test_timeout_0_lets_nothing_through_and_keeps_the_connection(bench: Bench) -> None:
    for downstream in (True, False):
        bench.got.clear()
        with poisoned(bench, toxic("timeout", downstream=downstream, timeout=0)), bench.dial() as connection:
            connection.sendall(b"hello")
            assert silent(connection)
            assert bool(bench.got) is downstream  # requests arrive where only responses do not


def test_timeout_1000_closes_after_a_second(bench: Bench) -> None:
    with poisoned(bench, toxic("timeout", timeout=1000)), bench.dial() as connection:
        connection.sendall(b"hello")
        assert silent(connection)
        assert gone(lambda: exchange(connection))


def test_reset_peer_resets(bench: Bench) -> None:
    with bench.dial() as old:
        exchange(old)
        with poisoned(bench, toxic("reset_peer", timeout=0), toxic("reset_peer", False, timeout=0)):
            assert gone(lambda: exchange(old))
            with bench.dial() as connection, pytest.raises(ConnectionResetError):
                exchange(connection)


def test_limit_data_closes_after_so_many_bytes(bench: Bench) -> None:
    with poisoned(bench, toxic("limit_data", bytes=500)), bench.dial() as connection:
        exchange(connection, b"x" * 400)
        assert gone(lambda: exchange(connection, b"x" * 400))


def test_slicer_cuts_into_small_pieces(bench: Bench) -> None:
    def slicer(downstream: bool) -> Toxic:
        return toxic("slicer", downstream, average_size=64, size_variation=32, delay=10_000)

    with bench.dial() as connection:
        exchange(connection, b"x" * 10_000)
        assert max(bench.got) > 1000
        bench.got.clear()
        with poisoned(bench, slicer(True), slicer(False)):
            exchange(connection, b"x" * 4000)  # more than half a second, piece by piece
            assert max(bench.got) < 2000
            assert len(bench.got) > 10
            bench.got.clear()


def test_all_toxics_of_a_broker_are_cured_and_curing_twice_is_nothing(bench: Bench) -> None:
    bench.proxies.poison([1, 2], [toxic("latency", latency=300), toxic("timeout", timeout=0)])
    bench.proxies.cure([1])
    with bench.dial(1) as connection:
        assert quick(connection)
    with bench.dial(2) as connection:
        connection.sendall(b"hello")
        assert silent(connection)
    bench.proxies.cure([1, 2, 7])
    bench.proxies.cure([1, 2])
    with bench.dial(2) as connection:
        assert quick(connection)


def fill(connection: socket.socket) -> None:
    """Send without reading until nothing more goes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            connection.sendall(b"x" * 65_536)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_client_that_reads_nothing_does_not_keep_its_link_from_being_cured(bench: Bench, when: str) -> None:
    bench.proxies.poison([2], [toxic("latency", latency=300)])
    with bench.dial() as stuck:
        if when == "before":
            fill(stuck)
            with pytest.raises(ClusterError, match="timed out"):
                bench.proxies.poison([1], [toxic("latency", latency=200)])
        else:
            bench.proxies.poison([1], [toxic("latency", latency=200)])
            fill(stuck)
        bench.proxies.cure([1])
        with bench.dial() as connection:
            assert quick(connection)
        with bench.dial(2) as connection:
            assert exchange(connection) > 0.29, "the other broker's link was not to be cured"


def test_what_toxiproxy_refuses_is_told(bench: Bench) -> None:
    with pytest.raises(ClusterError, match="invalid toxic type"):
        bench.proxies.poison([1], [toxic("plague")])
    with pytest.raises(ClusterError, match="no proxy stands in front of node 3"):
        bench.proxies.poison([3], [toxic("latency", latency=1)])


def test_a_proxy_of_the_environment_is_not_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    bench.proxies.poison([1], [toxic("latency", latency=1)])
    bench.proxies.cure([1])


def test_two_servers_in_one_process_are_told_apart(bench: Bench, program: str, ports: Plan) -> None:
    other = ToxiproxyServer(program, ports.toxiproxy, {1: route(ports)})
    try:
        bench.proxies.poison([1], [toxic("timeout", timeout=0)])
        other.cure([1])
        other.poison([1], [toxic("latency", latency=1)])
    finally:
        other.stop()
    with bench.dial() as connection:
        connection.sendall(b"hello")
        assert silent(connection)


# ---- the server's life


def ended(port: int) -> bool:
    """Nobody listens there any more."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return True
    return False


def kill(guard: Guard) -> None:
    os.killpg(guard.pid, signal.SIGKILL)
    until(lambda: guard.ended is not None, "the guard survives SIGKILL")


def test_stop_ends_the_server_and_is_idempotent(program: str, ports: Plan) -> None:
    api, listen = ports.toxiproxy, route(ports).listen
    mine = ToxiproxyServer(program, api, {1: route(ports)})
    assert mine.trouble() == ""
    assert not ended(listen)
    mine.stop()
    mine.stop()
    assert ended(api)
    assert ended(listen)
    assert "ended" in mine.trouble()
    with pytest.raises(ClusterError, match="toxiproxy"):
        mine.poison([1], [toxic("latency", latency=1)])
    with pytest.raises(ClusterError, match="toxiproxy was stopped"):
        mine.cure([1])
    assert ended(api)


def test_a_server_that_died_is_replaced_by_the_cure(bench: Bench) -> None:
    bench.proxies.poison([1], [toxic("timeout", timeout=0)])
    guard = bench.proxies._guard
    kill(guard)
    assert "exit code -9" in bench.proxies.trouble()
    bench.proxies.cure([1])
    assert bench.proxies.trouble() == ""
    with bench.dial() as connection:
        assert quick(connection)


def test_a_server_that_died_is_replaced_also_where_nobody_is_ill(bench: Bench) -> None:
    guard = bench.proxies._guard
    kill(guard)
    bench.proxies.cure([1])
    assert bench.proxies.trouble() == ""
    with bench.dial(2) as connection:
        assert quick(connection)


def test_a_cure_whose_server_does_not_start_fails_until_one_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.proxies.poison([1, 2], [toxic("latency", latency=300)])
    guard = bench.proxies._guard
    kill(guard)
    with monkeypatch.context() as broken:
        broken.setattr(bench.proxies, "_program", "/bin/false")
        for _ in range(2):
            with pytest.raises(ClusterError, match="toxiproxy ended with exit code 1"):
                bench.proxies.cure([1])
            assert "ended" in bench.proxies.trouble()
    bench.proxies.cure([1])
    assert bench.proxies.trouble() == ""
    with bench.dial() as connection:
        assert quick(connection)
    with bench.dial(2) as connection:
        assert exchange(connection) > 0.29, "the other broker's link was not to be cured"


def test_a_taken_port_is_told_and_nothing_is_left(program: str, ports: Plan) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match="address already in use"):
            ToxiproxyServer(program, ports.toxiproxy, {1: Route(port, ports.behind(1))})
        assert ended(ports.toxiproxy)


def test_a_program_that_does_not_run_is_told(tmp_path: Path, ports: Plan) -> None:
    broken = tmp_path / "toxiproxy-server"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(ClusterError, match="exit code 3 while starting"):
        ToxiproxyServer(str(broken), ports.toxiproxy, {})


OWNER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started all this behind it
from harness.brokers.toxiproxy import Route, ToxiproxyServer
proxies = ToxiproxyServer(sys.argv[1], int(sys.argv[2]), {1: Route(int(sys.argv[3]), 1)})
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_its_owner_however_that_ends(
    program: str, ports: Plan, how: signal.Signals
) -> None:
    api, listen = ports.toxiproxy, ports.advertised(1)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, program, str(api), str(listen)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as owner:
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == b"up\n"
            assert not ended(listen)
        finally:
            owner.send_signal(how)
            owner.wait(DEADLINE_S)
    until(lambda: ended(api) and ended(listen), "the server outlives its owner")


# ---- where the program comes from


@pytest.fixture
def nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_without_a_program_and_without_go_it_is_said_what_to_install(nothing_there: Path) -> None:
    assert toxiproxy.found() is None
    with pytest.raises(ClusterError, match=r"put toxiproxy-server .* on the PATH .* or install Go"):
        toxiproxy.ensure()


def test_a_program_on_the_path_is_taken(nothing_there: Path) -> None:
    script(nothing_there / "toxiproxy-server", "exit 0")
    assert toxiproxy.ensure() == toxiproxy.found() == str(nothing_there / "toxiproxy-server")


def test_it_is_built_once_with_go(nothing_there: Path) -> None:
    calls = nothing_there / "calls"
    script(
        nothing_there / "go",
        f'echo "$@" >> {calls}; echo "#!/bin/sh" > "$GOBIN/server"; /bin/chmod +x "$GOBIN/server"',
    )
    built = toxiproxy.ensure()
    assert Path(built).parent == nothing_there / "cache" / "inquest"
    assert os.access(built, os.X_OK)
    assert toxiproxy.ensure() == built
    assert calls.read_text() == "install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0\n"


def test_a_build_that_fails_says_why_and_leaves_nothing(nothing_there: Path) -> None:
    script(nothing_there / "go", 'echo "downloading" >&2; echo "no such host" >&2; exit 1')
    with pytest.raises(ClusterError, match=r"no such host; or put toxiproxy-server"):
        toxiproxy.ensure()
    assert toxiproxy.found() is None
    assert [path.name for path in (nothing_there / "cache" / "inquest").iterdir()] == ["toxiproxy.lock"]
