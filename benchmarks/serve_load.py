"""How `vitreous serve` stands load on one machine: dynamic batches against one at a time, overload, and a long soak.

    python -m benchmarks.serve_load runs/mnist mnist.onnx
    python -m benchmarks.serve_load runs/mnist --soak 600

Two services of the same model run side by side, one with `--batch 1`; clients turn to them alternately. Every reply is
compared with what the model answers offline.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
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
from vitreous.predict import load
from vitreous.prediction import AnyPredictor

SAMPLES = 512
TOLERANCE = 2e-4  # by which answers may differ with what they are computed with, relative to their size


@dataclass
class Service:
    """A service in a process of its own."""

    port: int
    pid: int

    @property
    def memory(self) -> float:
        """Megabytes that the process holds."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]


@contextmanager
def service(model: Path, device: str, *words: str) -> Iterator[Service]:
    """Start one, and end it."""
    command = [sys.executable, "-m", "vitreous", "serve", str(model), "--port", "0", "--device", device, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Service(int(line.rpartition(":")[2]), process.pid)
    finally:
        process.terminate()
        process.wait()


@dataclass
class Work:
    """Requests, byte for byte, and what their answers are offline."""

    requests: list[bytes]
    wanted: NDArray[np.float64]

    @classmethod
    def of(cls, predictor: AnyPredictor) -> "Work":
        if predictor.data in BUILTIN:
            x = BUILTIN[predictor.data]().x[-SAMPLES:]
        else:
            x = np.random.default_rng(0).normal(size=(SAMPLES, *predictor.input)).round(4)
        answer = predictor(x)
        wanted = answer.probabilities if answer.values is None else answer.values
        assert wanted is not None
        bodies = [json.dumps({"samples": [sample.tolist()]}, separators=(",", ":")).encode() for sample in x]
        lines = ("POST /v1/predict HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Content-Length: {}")
        head = "\r\n".join([*lines, "", ""])
        return cls([head.format(len(body)).encode() + body for body in bodies], wanted)

    def wrong(self, place: int, body: bytes) -> bool:
        """Whether a reply is not the answer to this request."""
        (row,) = json.loads(body)["rows"]
        found = row.get("probabilities") or [value["value"] for value in row["values"]]
        wanted = self.wanted[place]
        return not np.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(wanted).max()))


class Connection(asyncio.Protocol):
    """One client: sends bytes, and waits for a status and a body."""

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

    def connection_lost(self, fault: Exception | None) -> None:
        if not self.reply.done():
            self.reply.set_exception(fault or ConnectionError("closed"))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        self.buffer.clear()
        self.reply = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        found: tuple[int, bytes] = await self.reply
        return found


async def connect(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


@dataclass
class Log:
    """What came back: place of the request, status, seconds, body."""

    replies: list[tuple[int, int, float, bytes]] = field(default_factory=list)
    seconds: float = 0.0
    offered: float = 0.0
    lost: int = 0

    def times(self, good: bool = True) -> list[float]:
        return sorted(seconds for _, status, seconds, _ in self.replies if (status == 200) == good)

    @property
    def rate(self) -> float:
        return len(self.times()) / self.seconds

    def wrong(self, work: Work) -> int:
        return sum(work.wrong(place, body) for place, status, _, body in self.replies if status == 200)


def at(times: list[float], share: float) -> float:
    """A quantile of sorted times, in milliseconds."""
    return 1000 * times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


async def steady(port: int, work: Work, clients: int, seconds: float) -> Log:
    """So many clients, each of which asks again once it has its answer."""
    log, until = Log(), time.perf_counter() + seconds
    started = time.perf_counter()

    async def client(number: int) -> None:
        connection, place = await connect(port), number
        while time.perf_counter() < until:
            place = (place + clients) % len(work.requests)
            began = time.perf_counter()
            try:
                status, body = await connection.ask(work.requests[place])
            except OSError:
                log.lost += 1
                return
            log.lost += status != 200
            log.replies.append((place, status, time.perf_counter() - began, body))
        connection.transport.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    log.seconds = time.perf_counter() - started
    return log


async def flood(port: int, work: Work, clients: int, rate: float, seconds: float) -> Log:
    """So many clients that together ask at a rate, as far as they get replies."""
    log, connections, sent = Log(), [await connect(port) for _ in range(clients)], 0
    started = time.perf_counter()

    async def client(number: int, connection: Connection) -> None:
        nonlocal sent
        for turn in range(int(seconds * rate / clients) + 1):
            due = started + (turn + number / clients) * clients / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            place, began = (turn * clients + number) % len(work.requests), time.perf_counter()
            if began - started > seconds:
                break
            sent += 1
            try:
                status, body = await connection.ask(work.requests[place])
            except OSError:
                log.lost += 1
                return
            log.replies.append((place, status, time.perf_counter() - began, body))
        connection.transport.close()

    await asyncio.gather(*(client(number, connection) for number, connection in enumerate(connections)))
    log.seconds, log.offered = time.perf_counter() - started, sent / seconds
    return log


def alone(predictor: AnyPredictor, work: Work, count: int) -> float:
    """Samples a second of the model itself, so many at a time."""
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
        models: run folders, or files that vitreous export has made.
        clients: that ask at the same time.
        seconds: of a round.
        rounds: of each service, in turn.
        overload: try ten times what it can do.
        soak: seconds of steady load in which memory is watched; 0 for none.
        device: where runs compute.
    """
    screen = Console(width=130)
    table = Table(title=f"{clients} clients, one sample each, {rounds} rounds of {seconds:g} s in turn")
    for heading in (
        "model", "one at a time", "p50", "p99", "batches", "p50", "p99", "ratio", "model alone", "wrong, lost"
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for model in models:
        predictor = load(model, "cpu" if model.suffix == ".onnx" else device)
        work = Work.of(predictor)
        single, many = (statistics.median(alone(predictor, work, count) for _ in range(3)) for count in (1, clients))
        with service(model, device, "--batch", "1") as one, service(model, device, "--batch", str(clients)) as batched:
            pairs = list[tuple[Log, Log]]()
            for each in (one, batched):
                asyncio.run(steady(each.port, work, clients, 2.0))
            for _ in range(rounds):
                logs = [asyncio.run(steady(each.port, work, clients, seconds)) for each in (one, batched)]
                pairs.append((logs[0], logs[1]))
            cells = []
            for column in zip(*pairs, strict=True):
                times = sorted(time for log in column for time in log.times())
                cells += [f"{statistics.median(log.rate for log in column):.0f}/s"]
                cells += [f"{at(times, share):.0f} ms" for share in (0.5, 0.99)]
            ratio = statistics.median(b.rate / a.rate for a, b in pairs)
            every = [log for pair in pairs for log in pair]
            bad = f"{sum(log.wrong(work) for log in every)}, {sum(log.lost for log in every)}"
            count = sum(len(log.times()) for log in every)
            table.add_row(str(model.name), *cells, f"{ratio:.2f}", f"{single:.0f} → {many:.0f}/s", f"{bad} of {count}")
            if overload:
                tell_overload(screen, batched, work, clients, statistics.median(b.rate for _, b in pairs))
    screen.print(table)
    if soak:
        tell_soak(screen, models[0], device, clients, soak)


def tell_overload(screen: Console, server: Service, work: Work, clients: int, capacity: float) -> None:
    """Ten times the capacity for a while, or what the clients get to that wait for answers, and what comes after."""
    log = asyncio.run(flood(server.port, work, 15 * clients, 14 * capacity, 5.0))
    began = time.perf_counter()
    after = asyncio.run(steady(server.port, work, 1, 0.2))
    recovered = time.perf_counter() - began
    again = asyncio.run(steady(server.port, work, clients, 2.0))
    refused, good = log.times(good=False), log.times()
    statuses = sorted({status for _, status, _, _ in log.replies})
    screen.print(
        f"overload: {log.offered:.0f}/s offered ({log.offered / capacity:.1f} × "
        f"{capacity:.0f}/s), statuses {statuses}; refused {len(refused)}, after {at(refused, 0.5):.0f} ms at median, "
        f"{at(refused, 1):.0f} ms at most; answered {len(good)} ({log.rate:.0f}/s), p99 {at(good, 0.99):.0f} ms, "
        f"{log.wrong(work)} wrong, {log.lost} lost; then the first answer in {at(after.times(), 0):.0f} ms "
        f"and {again.rate:.0f}/s ({recovered:.1f} s later)",
        highlight=False,
    )


def tell_soak(screen: Console, model: Path, device: str, clients: int, seconds: float) -> None:
    """Steady load, with the memory of the service before and after."""
    work = Work.of(load(model, device))
    with service(model, device) as server:
        asyncio.run(steady(server.port, work, clients, min(30.0, seconds / 10)))
        first, highest, count, wrong, lost = server.memory, 0.0, 0, 0, 0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            log = asyncio.run(steady(server.port, work, clients, 10.0))
            count, wrong, lost = count + len(log.times()), wrong + log.wrong(work), lost + log.lost
            highest = max(highest, server.memory)
        last = server.memory
    screen.print(
        f"soak of {seconds:g} s: {count} answers, {wrong} wrong, {lost} lost; memory {first:.1f} MB after warming up, "
        f"{last:.1f} MB at the end ({(last / first - 1):+.1%}), {highest:.1f} MB at most",
        highlight=False,
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    tyro.cli(main)
