"""A question and its answer, without either side knowing where the other is.

plait broker
python examples/request_reply.py
"""

import asyncio

import plait


async def main() -> None:
    async with plait.connect() as server, plait.connect() as client, server.subscribe("ask == 'square'") as questions:

        async def answer(question: plait.Event) -> None:
            await question.reply({"result": question["number"] ** 2})

        questions.on(answer)
        reply = await client.request({"ask": "square", "number": 12}, timeout=2)
        print(f"12 squared is {reply['result']}")


asyncio.run(main())
