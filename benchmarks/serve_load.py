"""Load test of `vitreous serve` on one machine: dynamic batches against single samples, overload, and a long run.

    python -m benchmarks.serve_load runs/mnist mnist.onnx
    python -m benchmarks.serve_load runs/mnist --soak 600

Two services of the same model run side by side, one with `--batch 1`; the rounds alternate between them. Every response
is compared with the offline prediction of the model.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from vitreous.data import BUILTIN
from vitreous.run.load import load
from vitreous.run.prediction import AnyPredictor

SAMPLES = 512
TOLERANCE = 2e-4  # relative difference allowed between batched and offline answers


@dataclass
class Service:
    """A service in its own process."""

    port: int
    pid: int

    @property
    def memory(self) -> float:
        """Resident memory of the process in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]


@contextmanager
def service(models: Sequence[Path], device: str, *words: str) -> Iterator[Service]:
    """Run a service of models."""
    command = [sys.executable, "-m", "vitreous", "serve", *map(str, models), "--port", "0", "--device", device, *words]
    command += ["--client-share", "1"]  # all clients of the benchmark have one address
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Service(int(line.rpartition(":")[2]), process.pid)
    finally:
        process.terminate()
        process.wait()


@dataclass
class Workload:
    """Raw HTTP requests and their offline predictions."""

    requests: list[bytes]
    expected: NDArray[np.float64]

    @classmethod
    def of(cls, predictor: AnyPredictor) -> "Workload":
        """Return requests with built-in or random samples of a predictor."""
        if predictor.data in BUILTIN:
            x = BUILTIN[predictor.data]().x[-SAMPLES:]
        else:
            x = np.random.default_rng(0).normal(size=(SAMPLES, *predictor.input)).round(4)
        answer = predictor(x)
        expected = answer.probabilities if answer.values is None else answer.values
        assert expected is not None
        bodies = [json.dumps({"samples": [sample.tolist()]}, separators=(",", ":")).encode() for sample in x]
        lines = ("POST /v1/predict HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Content-Length: {}")
        head = "\r\n".join([*lines, "", ""])
        return cls([head.format(len(body)).encode() + body for body in bodies], expected)

    def is_wrong(self, index: int, body: bytes) -> bool:
        """Return whether a response differs from the offline prediction."""
        (row,) = json.loads(body)["rows"]
        values = row.get("probabilities") or [value["value"] for value in row["values"]]
        expected = self.expected[index]
        return not np.allclose(values, expected, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(expected).max()))


class Connection(asyncio.Protocol):
    """An HTTP client connection: sends raw requests one at a time."""

    def __init__(self) -> None:
        self.buffer, self.reply = bytearray(), asyncio.get_running_loop().create_future()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        if len(self.buffer) >= end + 4 + length and not self.reply.done():
            self.reply.set_result((int(head[9:12]), bytes(self.buffer[end + 4 : end + 4 + length])))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.reply.done():
            self.reply.set_exception(error or ConnectionError("closed"))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return the status and body of the response."""
        self.buffer.clear()
        self.reply = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        status_and_body: tuple[int, bytes] = await self.reply
        return status_and_body


async def connect(port: int) -> Connection:
    """Open a connection to a local port."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


@dataclass
class Log:
    """Responses: index of the request, status, seconds and body of each."""

    replies: list[tuple[int, int, float, bytes]] = field(default_factory=list)
    seconds: float = 0.0
    offered: float = 0.0
    lost: int = 0

    def times(self, good: bool = True) -> list[float]:
        """Return the sorted response times of successful or failed requests."""
        return sorted(seconds for _, status, seconds, _ in self.replies if (status == 200) == good)

    @property
    def rate(self) -> float:
        """Successful responses per second."""
        return len(self.times()) / self.seconds

    def count_wrong(self, work: Workload) -> int:
        """Return the number of responses that differ from the offline prediction."""
        return sum(work.is_wrong(index, body) for index, status, _, body in self.replies if status == 200)


def quantile(times: list[float], share: float) -> float:
    """Return a quantile of sorted times, in milliseconds."""
    return 1000 * times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


async def run_clients(port: int, work: Workload, clients: int, seconds: float) -> Log:
    """Run clients that each send the next request after a response."""
    log, until = Log(), time.perf_counter() + seconds
    started = time.perf_counter()

    async def client(number: int) -> None:
        connection, index = await connect(port), number
        while time.perf_counter() < until:
            index = (index + clients) % len(work.requests)
            began = time.perf_counter()
            try:
                status, body = await connection.send(work.requests[index])
            except OSError:
                log.lost += 1
                return
            log.lost += status != 200
            log.replies.append((index, status, time.perf_counter() - began, body))
        connection.transport.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    log.seconds = time.perf_counter() - started
    return log


async def run_overload(port: int, work: Workload, clients: int, rate: float, seconds: float) -> Log:
    """Run clients that together send requests at a fixed rate, as far as responses arrive."""
    log, connections, sent = Log(), [await connect(port) for _ in range(clients)], 0
    started = time.perf_counter()

    async def client(number: int, connection: Connection) -> None:
        nonlocal sent
        for turn in range(int(seconds * rate / clients) + 1):
            due = started + (turn + number / clients) * clients / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            index, began = (turn * clients + number) % len(work.requests), time.perf_counter()
            if began - started > seconds:
                break
            sent += 1
            try:
                status, body = await connection.send(work.requests[index])
            except OSError:
                log.lost += 1
                return
            log.replies.append((index, status, time.perf_counter() - began, body))
        connection.transport.close()

    await asyncio.gather(*(client(number, connection) for number, connection in enumerate(connections)))
    log.seconds, log.offered = time.perf_counter() - started, sent / seconds
    return log


def offline_rate(predictor: AnyPredictor, work: Workload, count: int) -> float:
    """Return the samples per second of the model without a service, in batches of `count`."""
    x = np.concatenate([json.loads(r.partition(b"\r\n\r\n")[2])["samples"] for r in work.requests[:count]])
    predictor(x)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < 1.5:
        predictor(x)
        done += count
    return done / (time.perf_counter() - began)


def main(
    models: Annotated[tuple[Path, ...], Positional],
    clients: int = 64,
    seconds: float = 5.0,
    rounds: int = 3,
    overload: bool = True,
    soak: float = 0.0,
    device: str = "cpu",
) -> None:
    """Print the tables.

    Args:
        models: run folders or exported model files.
        clients: number of concurrent clients.
        seconds: duration of a round.
        rounds: rounds of each service, alternating.
        overload: also send ten times the capacity.
        soak: seconds of steady load while memory is measured; 0 for none.
        device: device for runs.
    """
    screen = Console(width=130)
    table = Table(title=f"{clients} clients, one sample each, {rounds} rounds of {seconds:g} s, alternating")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for model in models:
        predictor = load(model, "cpu" if model.suffix == ".onnx" else device)
        work = Workload.of(predictor)
        rates = [statistics.median(offline_rate(predictor, work, count) for _ in range(3)) for count in (1, clients)]
        with (
            service([model], device, "--batch", "1") as one,
            service([model], device, "--batch", str(clients)) as batched,
        ):
            pairs = compare_services(one, batched, work, clients, seconds, rounds)
            table.add_row(str(model.name), *format_pairs(pairs, work, rates))
            if overload:
                print_overload(screen, batched, work, clients, statistics.median(b.rate for _, b in pairs))
    screen.print(table)
    if soak:
        print_soak(screen, models[0], device, clients, soak)


HEADINGS = (
    "model", "one at a time", "p50", "p99", "batches", "p50", "p99", "ratio", "model alone", "wrong, lost"
)  # fmt: skip


def compare_services(
    one: Service, batched: Service, work: Workload, clients: int, seconds: float, rounds: int
) -> list[tuple[Log, Log]]:
    """Run alternating rounds of both services after a warm-up."""
    for server in (one, batched):
        asyncio.run(run_clients(server.port, work, clients, 2.0))
    pairs = list[tuple[Log, Log]]()
    for _ in range(rounds):
        logs = [asyncio.run(run_clients(server.port, work, clients, seconds)) for server in (one, batched)]
        pairs.append((logs[0], logs[1]))
    return pairs


def format_pairs(pairs: list[tuple[Log, Log]], work: Workload, offline: list[float]) -> list[str]:
    """Return the cells of one row of the table."""
    cells = []
    for column in zip(*pairs, strict=True):
        times = sorted(time for log in column for time in log.times())
        cells += [f"{statistics.median(log.rate for log in column):.0f}/s"]
        cells += [f"{quantile(times, share):.0f} ms" for share in (0.5, 0.99)]
    ratio = statistics.median(b.rate / a.rate for a, b in pairs)
    logs = [log for pair in pairs for log in pair]
    bad = f"{sum(log.count_wrong(work) for log in logs)}, {sum(log.lost for log in logs)}"
    count = sum(len(log.times()) for log in logs)
    return [*cells, f"{ratio:.2f}", f"{offline[0]:.0f} → {offline[1]:.0f}/s", f"{bad} of {count}"]


def print_overload(screen: Console, server: Service, work: Workload, clients: int, capacity: float) -> None:
    """Send more than ten times the capacity for a while, then measure the recovery."""
    log = asyncio.run(run_overload(server.port, work, 15 * clients, 14 * capacity, 5.0))
    began = time.perf_counter()
    after = asyncio.run(run_clients(server.port, work, 1, 0.2))
    recovered = time.perf_counter() - began
    again = asyncio.run(run_clients(server.port, work, clients, 2.0))
    refused, good = log.times(good=False), log.times()
    statuses = sorted({status for _, status, _, _ in log.replies})
    screen.print(
        f"overload: {log.offered:.0f}/s offered ({log.offered / capacity:.1f} × "
        f"{capacity:.0f}/s), statuses {statuses}; refused {len(refused)}, in {quantile(refused, 0.5):.0f} ms (median) "
        f"and {quantile(refused, 1):.0f} ms (maximum); answered {len(good)} ({log.rate:.0f}/s), "
        f"p99 {quantile(good, 0.99):.0f} ms, {log.count_wrong(work)} wrong, {log.lost} lost; then the first answer "
        f"in {quantile(after.times(), 0):.0f} ms and {again.rate:.0f}/s ({recovered:.1f} s later)",
        highlight=False,
    )


def print_soak(screen: Console, model: Path, device: str, clients: int, seconds: float) -> None:
    """Measure the memory of the service before and after steady load."""
    work = Workload.of(load(model, device))
    with service([model], device) as server:
        asyncio.run(run_clients(server.port, work, clients, min(30.0, seconds / 10)))
        first, highest, count, wrong, lost = server.memory, 0.0, 0, 0, 0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            log = asyncio.run(run_clients(server.port, work, clients, 10.0))
            count, wrong, lost = count + len(log.times()), wrong + log.count_wrong(work), lost + log.lost
            highest = max(highest, server.memory)
        last = server.memory
    screen.print(
        f"soak of {seconds:g} s: {count} answers, {wrong} wrong, {lost} lost; memory {first:.1f} MB after warm-up, "
        f"{last:.1f} MB at the end ({(last / first - 1):+.1%}), {highest:.1f} MB at most",
        highlight=False,
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    tyro.cli(main)
