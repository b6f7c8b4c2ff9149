"""Programs that send with the package, for the tests: scenarios.py NAME ARGUMENT…

Each prints what it knows at its end as a line of JSON.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
import warnings

import pipectl

FAST = {"retry_wait": 0.05, "retry_max_wait": 0.2}
dropped = []
errors = []


def on_drop(records, reason, error):
    dropped.append([[record.get("n") if isinstance(record, dict) else record for record in records], reason,
                    error and error.code])


def options(**more):
    return {**FAST, "on_drop": on_drop, "on_error": lambda error: errors.append(error.code), **more}


def report(client, **more):
    print(json.dumps({"stats": client.stats._asdict(), "dropped": dropped, "errors": errors, **more}), flush=True)


def numbers(client, first, last):
    for n in range(int(first), int(last)):
        client.send({"n": n, "text": "é" * 20})


def many(count, batch="100", more="{}"):
    """Sends numbered records and waits for them."""
    with pipectl.Client(**options(batch_records=int(batch), timeout=1, **json.loads(more))) as client:
        numbers(client, 0, count)
        flushed = client.flush(60)
        report(client, flushed=flushed)


def new_key_each_time(count):
    """Negative control: a sender that does not keep the Idempotency-Key of a batch."""
    import uuid

    client = pipectl.Client(**options(batch_records=100, timeout=1))
    post = client._connection.post
    client._connection.post = lambda body, key: post(body, str(uuid.uuid4()))
    numbers(client, 0, count)
    client.close(60)
    report(client)


def threads(count):
    with pipectl.Client(**options(batch_records=50)) as client:
        share = int(count) // 4
        workers = [threading.Thread(target=numbers, args=(client, k * share, (k + 1) * share)) for k in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        report(client, left=client.close(60))


def kinds():
    """Every form of a record, and what is none."""
    import datetime
    import decimal

    class Shown(decimal.Decimal):
        pass

    wrong = 0
    with pipectl.Client(**options()) as client:
        client.send({"n": 1, "at": datetime.datetime(2027, 1, 31, 6, 0, tzinfo=datetime.timezone.utc)})
        client.send('{"n": 2, "price": 1.10,\n "id": 12345678901234567890}')
        client.send(b'  {"n": 3, "text": "\xc3\xa9"}\n')
        for record in (5, None, [{"n": 9}], "[1]", {"n": float("nan")}, {"n": {1, 2}}, {"n": Shown("1.10")}, {"n": "\ud800"}):
            try:
                client.send(record)
            except (TypeError, ValueError):
                wrong += 1
        report(client, wrong=wrong, left=client.close(30))


def rejected():
    """Records that the daemon rejects, among others."""
    with pipectl.Client(**options(batch_records=100)) as client:
        for n in range(100):
            client.send('{"n":%d,"wrong":}' % n if n in (17, 63) else {"n": n})
        report(client, flushed=client.flush(60))


def until_stored(count):
    """Keeps trying, and says so once the first attempt has failed."""
    client = pipectl.Client(**options(on_error=lambda error: print(error.code, flush=True)))
    numbers(client, 0, count)
    report(client, left=client.close(60))


def full(when_full, go):
    """More records than the queue takes while nothing is accepted. `go`: a file that ends the outage."""
    client = pipectl.Client(**options(batch_records=100, queue_records=250, when_full=when_full))
    sender = threading.Thread(target=numbers, args=(client, 0, 1000), daemon=True)
    sender.start()
    if when_full == "drop":
        sender.join()
    else:
        while client.stats.pending < 250:
            sender.join(0.01)
    open(go, "w").close()
    sender.join()
    report(client, left=client.close(60))


def exits(count):
    """Ends without `close`. A record is sent in the exit as well."""
    import atexit

    client = pipectl.Client(**options(batch_records=10_000, linger=600))
    numbers(client, 0, count)
    atexit.register(client.send, {"n": int(count)})


def exits_without_server(count):
    pipectl.Client(**options(exit_timeout=0.3, linger=600, on_drop=lambda records, reason, error: print(len(records), reason)))
    client = pipectl.Client(**options(exit_timeout=0.3, on_drop=lambda records, reason, error: print(len(records), reason)))
    numbers(client, 0, count)


def forks(spool=""):
    """Forks with pending records, twice, while the thread sends. Each process sends its own."""
    # Python 3.12 and newer warn of a fork with threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    client = pipectl.Client(**options(batch_records=20, spool=spool or None))
    numbers(client, 0, 300)
    children = []
    for k in (1, 2):
        child = os.fork()
        if child == 0:
            pending = client.stats.pending
            numbers(client, k * 1000, k * 1000 + 150)
            # Ends by the way of the process, with the atexit functions that it has inherited.
            sys.exit(3 if pending else 0)
        children.append(child)
        numbers(client, 300 * k, 300 * (k + 1))
    codes = [os.waitpid(child, 0)[1] for child in children]
    report(client, codes=codes, left=client.close(60))


def asynchronous(count):
    async def main():
        async with pipectl.AsyncClient(**options(batch_records=50, timeout=1)) as client:
            share = int(count) // 4

            async def send(first):
                for n in range(first, first + share):
                    await client.send({"n": n})
                    await asyncio.sleep(0)

            await asyncio.gather(*[send(k * share) for k in range(4)])
            cancelled = asyncio.ensure_future(client.flush())
            await asyncio.sleep(0)
            cancelled.cancel()
            was_cancelled = await asyncio.gather(cancelled, return_exceptions=True)
            report(client, flushed=await client.flush(60), cancelled=type(was_cancelled[0]).__name__)

    asyncio.run(main())


def async_blocked(go):
    """A full queue makes `send` wait. One that is cancelled has sent nothing."""

    async def main():
        loop = asyncio.get_running_loop()
        threads = set()
        client = pipectl.AsyncClient(
            **options(batch_records=50, queue_records=100, when_full="block",
                      on_error=lambda error: threads.add(threading.current_thread().name))
        )
        for n in range(100):
            await client.send({"n": n})
        waiting = [asyncio.ensure_future(client.send({"n": n})) for n in (100, 101)]
        done, _ = await asyncio.wait(waiting, timeout=0.3)
        waiting[0].cancel()
        open(go, "w").close()
        sent = await asyncio.gather(*waiting, return_exceptions=True)
        left = await client.close(60)
        report(client, early=len(done), sent=[str(type(one).__name__) for one in sent], left=left, threads=sorted(threads))
        assert loop is asyncio.get_running_loop()

    asyncio.run(main())


def async_cancelled(count):
    """The program is cancelled in the middle: `async with` sends what is pending."""

    async def main():
        async with pipectl.AsyncClient(**options(linger=600)) as client:
            for n in range(int(count)):
                await client.send({"n": n})
            print("sent", flush=True)
            await asyncio.sleep(600)

    async def outer():
        task = asyncio.ensure_future(main())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(outer())


def endless(first, spool):
    """Sends until it is killed, and prints each number once `send` has returned."""
    client = pipectl.Client(**options(batch_records=20, linger=0.05, spool=spool or None, timeout=2))
    n = int(first)
    while True:
        if client.stats.pending < 2_000:
            client.send({"n": n})
            print(n, flush=True)
            n += 1


def drain(spool):
    """Sends what earlier processes have left."""
    client = pipectl.Client(**options(spool=spool))
    report(client, flushed=client.flush(60), left=client.close(10), files=os.listdir(spool))


def closes_early(count, spool):
    """Closes while the daemon cannot be reached."""
    client = pipectl.Client(**options(spool=spool))
    numbers(client, 0, count)
    report(client, left=client.close(0.2))


def disk_full(spool, limit):
    """No file can be larger than `limit` bytes, as on a full disk: a line is written in part."""
    import resource

    client = pipectl.Client(**options(spool=spool, batch_records=50))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    numbers(client, 0, 300)
    report(client, left=client.close(60), files=os.listdir(spool))


def every_step(root):
    """Kills a sender at the first, second, third … change of its spool, and lets the next client send what it has left.

    Each process is a fork of this one. The numbers of a run begin at its step times 1000.
    """
    accepted, wrong, step = [], [], 0
    while True:
        spool = os.path.join(root, str(step))
        was_killed, numbers_sent = in_fork(lambda pipe: killed_at(step, spool, pipe))
        accepted += numbers_sent
        in_fork(lambda pipe: finish_spool(spool, pipe))
        if os.listdir(spool):
            wrong.append(f"step {step} leaves {os.listdir(spool)}")
        if not was_killed:
            break
        step += 1
    print(json.dumps({"accepted": accepted, "steps": step, "wrong": wrong}))


def in_fork(run):
    """Whether the process was killed, and the numbers that it has written to its pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            run(writing)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read()
    return os.WIFSIGNALED(os.waitpid(child, 0)[1]), [int(line) for line in text.split()]


def killed_at(step, spool, pipe):
    changes = iter(range(step))

    def kill_at_step(event, arguments):
        # The changes of files, as the interpreter reports them before they happen.
        is_change = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate") or (
            event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(spool)
        )
        if is_change and next(changes, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill_at_step)
    client = pipectl.Client(**options(spool=spool, batch_records=4, linger=0.01))
    for n in range(step * 1000, step * 1000 + 10):
        is_wrong = n % 1000 == 5
        client.send('{"n":%d,"wrong":}' % n if is_wrong else {"n": n})
        if not is_wrong:
            os.write(pipe, b"%d\n" % n)
    client.close(30)


def finish_spool(spool, pipe):
    client = pipectl.Client(**options(spool=spool))
    client.flush(30)
    client.close(10)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
