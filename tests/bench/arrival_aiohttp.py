"""The loop of the usual Python clients: one task a stream, aiohttp, json for each event.

arrival_aiohttp.py PORT STREAMS [REQUESTS]: as arrival_client, with user-space stamps alone.
"""

import asyncio
import json
import resource
import sys
import time

import aiohttp


async def read_stream(session, url, errors):
    async with session.post(url, json={}) as response:
        unread = b""
        async for piece in response.content.iter_any():
            unread += piece
            while b"\n\n" in unread:
                event, unread = unread.split(b"\n\n", 1)
                at = time.monotonic_ns()
                data = event.removeprefix(b"data: ")
                if data == b"[DONE]":
                    return True
                text = json.loads(data)["choices"][0]["text"]
                if text:
                    errors.append(at - int(text))
    return False


async def read_streams(session, url, errors, requests):
    return all([await read_stream(session, url, errors) for _ in range(requests)])


async def run(port, streams, requests):
    errors = []
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        url = f"http://127.0.0.1:{port}/v1/completions"
        whole = await asyncio.gather(
            *(read_streams(session, url, errors, requests) for _ in range(streams)), return_exceptions=True
        )
    return errors, sum(one is not True for one in whole)


def main():
    port, streams, requests = int(sys.argv[1]), int(sys.argv[2]), int((sys.argv + [1])[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cpu, start = time.process_time(), time.monotonic()
    errors, failed = asyncio.run(run(port, streams, requests))
    cpu, wall = time.process_time() - cpu, time.monotonic() - start
    errors.sort()

    def quantile(q):
        return round(errors[int(q * (len(errors) - 1))] / 1000, 1) if errors else None

    print(
        json.dumps(
            {
                "client": "aiohttp",
                "streams": streams,
                "events": len(errors),
                "failed": failed,
                "cpu_us_per_event": round(cpu * 1e6 / max(len(errors), 1), 2),
                "events_per_cpu_s": round(len(errors) / cpu),
                "cpu_share": round(cpu / wall, 2),
                "kernel_error_us": {"p50": None, "p99": None},
                "user_error_us": {"p50": quantile(0.5), "p99": quantile(0.99)},
                "resident_bytes_per_stream": None,
            }
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
