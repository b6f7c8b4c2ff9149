/** The JavaScript client in Node.js with its queue in a directory: processes that end at any moment lose nothing. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { createClient, makeSdkPipe, observed, sdkForNode } from '../support/sdk.ts'
import { numbers, sorted } from '../support/shop.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())

async function open(t: Test) {
  const proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(daemon.dataUrl).port) })
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-queue-'))
  t.teardown(async () => {
    await proxy.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  const pipe = await makeSdkPipe(daemon)
  const url = `http://127.0.0.1:${proxy.port}`
  const options = { ...pipe.options(url), queue: { directory }, batch: { maxRecords: 20, maxWaitMs: 50 } }
  return { proxy, directory, pipe, options }
}

/** A process that sends numbers and prints each one after `send` has returned. */
function startSender(options: object, { from = 0, to = 1e9, run = 0, atEnd = '' } = {}): ChildProcess {
  const program = `
    import { createClient } from ${JSON.stringify(sdkForNode)}
    const client = createClient(${JSON.stringify(options)})
    let n = ${from}
    const some = () => {
      for (let i = 0; i < 7 && n < ${to}; i++, n++) if (client.send({ n, run: ${run} })) process.stdout.write(n + '\\n')
      if (n < ${to}) setImmediate(some)
      else { ${atEnd} }
    }
    some()`
  return spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

/** Kills the process after so many numbers. Returns the number of records that it knows to be kept. */
async function killAfter(child: ChildProcess, count: number): Promise<number> {
  let kept = 0
  const lines = createInterface({ input: child.stdout! })
  lines.on('line', () => {
    if (++kept === count) child.kill('SIGKILL')
  })
  await Promise.all([once(child, 'exit'), once(lines, 'close')])
  return kept
}

/** Files below the directory that are not folders. */
function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\/[a-z\d]+-\d+$/.test(name),
  )
}

t.test('killed again and again, while responses are lost: each record arrives once', async (t) => {
  const { proxy, directory, pipe, options } = await open(t)
  let sent = 0
  for (const round of numbers(0, 4)) {
    // The network is away, loses responses, or works.
    if (round === 0) proxy.setMode({ kind: 'reset' })
    else proxy.setMode({ kind: 'cut_at_reply', text: '"accepted":true', times: round })
    sent += await killAfter(startSender(options, { from: sent, run: round }), 150 + 97 * round)
  }
  proxy.setMode({ kind: 'pass' })
  const seen = observed()
  const client = createClient({ ...options, ...seen })
  t.equal(await client.close(), 0)
  const arrived = await pipe.arrived()
  const missing = new Set(numbers(0, sent))
  for (const { n } of arrived) missing.delete(Number(n))
  t.equal(missing.size, 0, `all ${sent} records for which send returned`)
  // A number that was kept, but not printed, is used by the next process too.
  t.equal(new Set(arrived.map(({ n, run }) => `${n} of ${run}`)).size, arrived.length, 'and none twice')
  t.same([seen.drops, filesIn(directory)], [[], []])
})

t.test('negative control: a queue in memory loses records when its process is killed', async (t) => {
  const { proxy, pipe, options } = await open(t)
  proxy.setMode({ kind: 'reset' })
  const kept = await killAfter(startSender({ ...options, queue: {} }), 100)
  proxy.setMode({ kind: 'pass' })
  const client = createClient(options)
  t.equal(await client.close(), 0)
  t.ok(kept >= 100)
  t.same(await pipe.arrived(), [])
})

t.test('a process ends by itself once its records are stored', async (t) => {
  const { directory, pipe, options } = await open(t)
  const child = startSender({ ...options, queue: {} }, { to: 30 })
  child.stdout?.resume()
  t.same(await once(child, 'exit'), [0, null])
  t.same(sorted(await pipe.arrived()), numbers(0, 30))
  t.same(filesIn(directory), [])
})

t.test('close keeps the records for the next client', async (t) => {
  const { proxy, directory, pipe, options } = await open(t)
  proxy.setMode({ kind: 'reset' })
  const seen = observed()
  const first = createClient({ ...options, ...seen })
  for (const n of numbers(0, 50)) first.send({ n })
  t.equal(await first.close(0), 50)
  t.equal(filesIn(directory).length, 3)
  t.same(seen.drops, [])
  proxy.setMode({ kind: 'pass' })
  const next = createClient(options)
  t.equal(next.stats().pending, 50)
  t.equal(await next.close(), 0)
  t.same(
    (await pipe.arrived()).map(({ n }) => n),
    numbers(0, 50),
    'in order',
  )
  t.same(filesIn(directory), [])
})

t.test('two clients of one directory: each sends its own records', async (t) => {
  const { proxy, pipe, options } = await open(t)
  proxy.setMode({ kind: 'hold' })
  const child = startSender(options, { from: 1_000, to: 1_030, atEnd: 'setInterval(() => {}, 1000)' })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = 0
  child.stdout?.on('data', (data) => {
    printed += String(data).split('\n').length - 1
  })
  await until('the other process has sent', () => printed === 30)
  const [left, right] = [createClient(options), createClient(options)]
  for (const n of numbers(0, 30)) {
    left.send({ n })
    right.send({ n: n + 100 })
  }
  t.same([left.stats().pending, right.stats().pending], [30, 30])
  proxy.setMode({ kind: 'pass' })
  t.same([await left.close(), await right.close()], [0, 0])
  await until('all have arrived', async () => (await pipe.arrived()).length >= 90)
  t.same(sorted(await pipe.arrived()), [...numbers(0, 30), ...numbers(100, 130), ...numbers(1_000, 1_030)])
})

t.test('a record that was cut off, and files of others, are passed over', async (t) => {
  const { proxy, directory, pipe, options } = await open(t)
  proxy.setMode({ kind: 'reset' })
  const first = createClient({ ...options, batch: { maxRecords: 100 } })
  for (const n of numbers(0, 9)) first.send({ n })
  await first.close(0)
  const file = path.join(directory, filesIn(directory)[0] ?? '')
  const text = readFileSync(file, 'utf8')
  t.match(text, /^\[\{"n":0\},\n.*\{"n":8\}$/s)
  writeFileSync(file, text.slice(0, -3))
  for (const [name, content] of [
    ['empty-1', ''],
    ['zeros-2', '\0'.repeat(20)],
    ['other.txt', 'hello'],
  ] as const)
    writeFileSync(path.join(path.dirname(file), name), content)
  proxy.setMode({ kind: 'pass' })
  const next = createClient(options)
  t.equal(await next.close(), 0)
  t.same(sorted(await pipe.arrived()), numbers(0, 8))
})

t.test('a directory that cannot be written: the queue is in memory', async (t) => {
  const { directory, pipe, options } = await open(t)
  const file = path.join(directory, 'a-file')
  writeFileSync(file, '')
  chmodSync(file, 0o400)
  const client = createClient({ ...options, queue: { directory: file } })
  for (const n of numbers(0, 50)) t.equal(client.send({ n }), true)
  t.equal(await client.close(), 0)
  t.same(sorted(await pipe.arrived()), numbers(0, 50))
})
