import asyncio, plait

async def main():
    async with plait.connect("plait://localhost:4680") as client:
        async with client.subscribe("symbol == 'IBM' and 100 < price <= 130", within=0.050) as quotes:
            await client.publish({"symbol": "IBM", "price": 121.5}, ttl=2)
            async for event in quotes:
                print(event["symbol"], event.delay, event.path)
                break

asyncio.run(main())
