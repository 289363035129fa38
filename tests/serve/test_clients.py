"""No client can use up what the others need: requests, memory, connections, processes, and guesses of the token."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serve.clients import HOME, make_sum_client, post_error
from vitreous.serve.clients import Pool, TokenCheck, client_of
from vitreous.serve.errors import RequestError
from vitreous.serve.limits import Limits

PATH = "/v1/predict"
ONE = {"samples": [[1, 2, 3, 4, 5]]}
TOKEN = "correct-horse-battery"
RIGHT, WRONG = {"authorization": f"Bearer {TOKEN}"}, {"authorization": "Bearer a-wrong-token"}


def at_address(client: TestClient, address: str, port: int = 50_000) -> TestClient:
    """Return a client of the same service at another address."""
    return TestClient(client.app, base_url=HOME, client=(address, port))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_a_client_is_an_address_or_a_network_of_64_bits(one: str, other: str, same: bool) -> None:
    assert (client_of((one, 1)) == client_of((other, 2))) is same


def test_a_pool_always_has_something_left_for_another_client() -> None:
    pool = Pool("full", 100, 0.5)
    for client in "abcdef":
        while pool.allows(client, 1):
            pool.add(client, 1)
        assert pool.used < 100
    assert pool.used > 90


def test_a_claim_ends_with_its_block() -> None:
    pool = Pool("{} bytes", 100, 0.5)
    with pool.claim("a", 80) as claim, pytest.raises(RequestError, match="80 bytes; try again"):
        claim.add(21)
    assert pool.used == 0


def test_a_client_leaves_requests_to_others() -> None:
    client, predictor = make_sum_client(Limits(requests=4))
    with client, ThreadPoolExecutor(3) as threads:
        predictor.gate.clear()
        running = [threads.submit(client.post, PATH, json=ONE) for _ in range(2)]
        while "vitreous_requests_active 3.0" not in client.get("/metrics").text:
            time.sleep(0.01)
        assert predictor.entered.wait(10)
        assert "2 requests are in progress" in post_error(client, PATH, 429, json=ONE)
        running.append(threads.submit(at_address(client, "10.0.0.2").post, PATH, json=ONE))
        predictor.gate.set()
        assert [reply.result(10).status_code for reply in running] == [200, 200, 200]


def send_slowly(app: Any, pieces: list[bytes], pause: float) -> tuple[int, float]:
    """Send a body in pieces with pauses, and then nothing; return the status and the seconds until it came."""
    sent, status = list(pieces), 0

    async def receive() -> Any:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": sent.pop(0), "more_body": True} if sent else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers, "query_string": b""}
    started = time.monotonic()
    asyncio.run(app(scope, receive, send))
    return status, time.monotonic() - started


def test_a_body_must_arrive_at_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitreous.serve.body.BODY_START", 0.1)
    client, _ = make_sum_client(Limits(body_rate=1000))
    with client:
        drops = [b" "] * 1000
        status, seconds = send_slowly(client.app, drops, 0.01)
        assert status == 408
        assert seconds < 3  # all drops would take ten seconds
        steady = [b" " * 50] * 12
        status, seconds = send_slowly(client.app, steady, 0.02)
        assert status == 408
        assert seconds > 0.5  # the twelve pieces are waited for: 600 bytes allow 0.6 s


def test_wrong_tokens_of_a_client_are_slowed_down() -> None:
    client, _ = make_sum_client(Limits(wrong_tokens=3), token=TOKEN)
    with client:
        assert [client.get("/v1/models", headers=WRONG).status_code for _ in range(3)] == [401, 401, 401]
        started = time.monotonic()
        reply = client.get("/v1/models", headers=WRONG)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert time.monotonic() - started > 0.5
        assert "\n" not in reply.json()["error"]


def test_guesses_beyond_a_few_are_refused_without_being_compared() -> None:
    async def status(check: TokenCheck, headers: dict[str, str], *address: Any) -> int:
        try:
            await check.check(headers, address)
        except RequestError as error:
            return error.status
        return 200

    async def guess() -> None:
        check = TokenCheck(TOKEN, 1)
        guesses = [asyncio.ensure_future(status(check, WRONG, "10.0.0.3", port)) for port in range(12)]
        await asyncio.sleep(0)
        assert [task.result() for task in guesses if task.done()] == [401] + [429] * 8  # three wait
        assert await status(check, RIGHT, "10.0.0.3", 99) == 429
        assert await status(check, RIGHT, "10.0.0.4", 99) == 200
        for task in guesses:
            task.cancel()

    asyncio.run(guess())


def test_the_right_token_works_behind_the_address_of_wrong_ones() -> None:
    client, _ = make_sum_client(Limits(wrong_tokens=2), token=TOKEN)
    with client:
        user, guesser = at_address(client, "10.0.0.5", 1), at_address(client, "10.0.0.5", 2)
        assert user.get("/v1/models", headers=RIGHT).status_code == 200
        assert [guesser.get("/v1/models", headers=WRONG).status_code for _ in range(3)] == [401, 401, 429]
        started = time.monotonic()
        assert all(user.get("/v1/models", headers=RIGHT).status_code == 200 for _ in range(20))
        assert time.monotonic() - started < 1  # a connection that has sent the right token does not wait
        assert at_address(client, "10.0.0.5", 3).get("/v1/models", headers=RIGHT).status_code == 200


def test_a_missing_token_is_no_guess() -> None:
    client, _ = make_sum_client(Limits(wrong_tokens=1), token=TOKEN)
    with client:
        assert {client.get("/v1/models").status_code for _ in range(10)} == {401}
        assert client.get("/v1/models", headers=RIGHT).status_code == 200
