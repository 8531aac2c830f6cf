"""Clients of vLLM's completions API: so many at a time, each asking anew until told to stop."""

import http.client
import json
import random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

REQUEST_TIMEOUT_S = 300.0


class Request(NamedTuple):
    """A prompt of token ids, and how many tokens to generate."""

    prompt: Sequence[int]
    out: int


class Clients:
    """`ask` makes each request; a client whose request is under way when they stop hangs up."""

    def __init__(self, address: str, ask: Callable[[random.Random], Request]) -> None:
        self._address = address
        self._ask = ask
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connections: dict[int, http.client.HTTPConnection] = {}
        self.finished = 0
        self.failed = 0

    def start(self, count: int) -> None:
        """Begin with `count` requests at once."""
        for number in range(count):
            thread = threading.Thread(target=self._run, args=(number,))
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Hang up and wait for the clients."""
        self._stop.set()
        for connection in list(self._connections.values()):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(REQUEST_TIMEOUT_S)

    def _run(self, number: int) -> None:
        own_random = random.Random(number)
        while not self._stop.is_set():
            try:
                self._complete(number, self._ask(own_random))
                self.finished += 1
            except (OSError, http.client.HTTPException, ValueError):
                if not self._stop.is_set():
                    self.failed += 1
                    self._stop.wait(0.5)  # a server that is in trouble is not hammered

    def _complete(self, number: int, request: Request) -> None:
        body: dict[str, Any] = {
            "model": "m", "prompt": list(request.prompt), "max_tokens": request.out,
            "ignore_eos": True, "temperature": 1.0,
        }  # fmt: skip
        connection = http.client.HTTPConnection(self._address, timeout=REQUEST_TIMEOUT_S)
        self._connections[number] = connection
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/completions", json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise ValueError(answer[:200])
        finally:
            connection.close()


def tokens(own_random: random.Random, count: int, vocabulary: int) -> list[int]:
    """Made-up token ids that are no special ones."""
    return [own_random.randrange(3, vocabulary) for _ in range(count)]


def chat(
    vocabulary: int, prefix_lengths: Sequence[int], own: int, out: tuple[int, int]
) -> Callable[[random.Random], Request]:
    """Short requests behind shared prefixes."""
    source = random.Random(1)
    prefixes = [tokens(source, length, vocabulary) for length in prefix_lengths]

    def ask(own_random: random.Random) -> Request:
        length = own_random.randint(own // 2, own)
        prompt = own_random.choice(prefixes) + tokens(own_random, length, vocabulary)
        return Request(prompt, own_random.randint(*out))

    return ask


def long(vocabulary: int, prompt: int, out: tuple[int, int]) -> Callable[[random.Random], Request]:
    """Prompts that share nothing."""

    def ask(own_random: random.Random) -> Request:
        return Request(tokens(own_random, prompt, vocabulary), own_random.randint(*out))

    return ask
