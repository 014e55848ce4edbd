# Tasks that catch their own cancellation.
import asyncio


async def stubborn():
    while True:
        try:
            await asyncio.sleep(1000)
        except BaseException:
            pass


await asyncio.gather(stubborn(), stubborn())
