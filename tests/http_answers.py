"""An HTTP server on loopback that answers with what stands in a list, and writes down what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    line: str
    """Such as `GET /v2/droplets?page=1`."""
    headers: Mapping[str, str]
    body: str


@dataclass
class Answers:
    """What is answered, in order, and what was asked.

    An answer is a map: `request`, the line that must come, anything where it is not there; `status`; `headers`; `body`,
    a text or data for JSON; `hang_up`, to close the connection instead. After the last one the last is repeated if
    `again` is in it.
    """

    planned: list[Mapping[str, Any]]
    asked: list[Asked] = field(default_factory=list)
    unplanned: list[str] = field(default_factory=list)
    address: str = ""

    def next(self, line: str) -> Mapping[str, Any]:
        """The answer to this request; one with status 599, which nobody expects, when another was planned."""
        if not self.planned or self.planned[0].get("request", line) != line:
            wanted = self.planned[0]["request"] if self.planned else "nothing more"
            self.unplanned.append(f"{line} came, {wanted} was planned")
            return {"status": 599, "body": {"message": self.unplanned[-1]}}
        return self.planned[0] if self.planned[0].get("again") else self.planned.pop(0)

    @property
    def lines(self) -> list[str]:
        """The first lines of all requests."""
        return [asked.line for asked in self.asked]


def recorded(path: Path) -> list[Mapping[str, Any]]:
    """The answers in a file."""
    answers: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return answers


@contextmanager
def answering(planned: Sequence[Mapping[str, Any]], certificate: Path | None = None) -> Iterator[Answers]:
    """A server with these answers; at the end all of them must have been given, and nothing else been asked.

    With a certificate, in one file with its key, it speaks HTTPS.
    """
    answers = Answers(list(planned))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            line = f"{self.command} {self.path}"
            answers.asked.append(Asked(line, dict(self.headers), body))
            answer = answers.next(line)
            if answer.get("hang_up"):
                self.close_connection = True
                return
            said = answer.get("body", "")
            data = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(answer.get("status", 200))
            headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
            for name, value in {**headers, **answer.get("headers", {})}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PUT = _answer  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    answers.address = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield answers
        assert answers.unplanned == []
        assert [answer for answer in answers.planned if not answer.get("again")] == []
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
