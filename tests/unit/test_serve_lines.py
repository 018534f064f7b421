"""What `serve` prints of its processes."""

from __future__ import annotations

import io
import json

from models_registry.log_redaction import Redaction
from routerproj.serve.output import Output


def printed(*chunks: bytes, as_json: bool = False) -> list[str]:
    stream = io.StringIO()
    output = Output(stream, as_json=as_json, redaction=Redaction(["open-sesame"]))
    process = output.of("web")
    for chunk in chunks:
        process.feed(chunk)
    process.end()
    assert output.flush()
    return stream.getvalue().splitlines()


def test_a_line_that_no_log_has_written_is_harmless():
    lines = printed(b"\x1b[2Jjobs      | forged\rBearer S3cretS3cret open-", b"sesame\n")

    assert lines == [
        r"web       | \x1b[2Jjobs      | forged\rBearer [redacted] [redacted]",
    ]


def test_for_a_collector_each_line_is_an_object_of_its_process():
    lines = printed(b'{"event": "loaded", "level": "info"}\nTraceback\n', b"7\n", as_json=True)

    assert [json.loads(line) for line in lines] == [
        {"process": "web", "event": "loaded", "level": "info"},
        {"process": "web", "event": "Traceback"},
        {"process": "web", "event": "7"},
    ]
