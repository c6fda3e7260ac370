"""Large answers are made while other requests go on."""

import asyncio
import json

from asr.serve import answers


def test_other_requests_go_on_while_a_large_answer_is_made() -> None:
    record = {"weights": [[0.1234] * 1000] * 500, "text": "é"}

    async def ticks() -> tuple[int, bytes]:
        count = 0
        making = asyncio.ensure_future(answers.json_answer(lambda: record))
        while not making.done():
            await asyncio.sleep(0.001)
            count += 1
        return count, making.result().body

    count, body = asyncio.run(ticks())
    assert json.loads(body) == record
    assert count >= 10  # `json.dumps`, in a thread too, leaves one or two
