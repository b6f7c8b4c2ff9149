/**
 * The queues of examples/devices: killed at any moment, with lost requests and responses, each record is stored once.
 *
 * The sketch of the ESP32 runs on Linux, with test/support/arduino in place of its core. Compilers of Swift and Kotlin are too
 * large for a test run: TEST_SWIFT and TEST_KOTLIN are commands that run the compiled examples (examples/README.md).
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { cleanEnv, startDaemon } from '../support/daemon.ts'
import { type Fate, inTurn, openFaultyPipe } from '../support/ingest-faults.ts'
import { examplesDir } from '../support/languages.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
const directory = mkdtempSync(path.join(process.env.TEST_DEVICES_DIR ?? os.tmpdir(), 'pipectl-devices-'))
t.teardown(async () => {
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})
const fates: Fate[] = ['cut', 'lost', 'forwarded', 'busy', 'lost', 'limited', 'forwarded', 'lost']

interface Running {
  child: ChildProcess
  /** The records that the program has kept, as it says. */
  kept: string[]
  /** Resolves with the exit code, or the signal. */
  ended: Promise<number | string | null>
}

function start(command: readonly string[], env: Record<string, string>, input = ''): Running {
  const [program = '', ...args] = command
  const child = spawn(program, args, { env: cleanEnv(env), stdio: ['pipe', 'pipe', 'inherit'] })
  const kept: string[] = []
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    kept.push(...lines.filter((line) => line.startsWith('kept ')).map((line) => line.slice('kept '.length)))
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const ended = new Promise<number | string | null>((resolve) =>
    child.once('close', (code, signal) => resolve(code ?? signal)),
  )
  return { child, kept, ended }
}

async function kill({ child, ended }: Running): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

const program = path.join(directory, 'esp32')
const support = new URL('../../test/support/arduino/', import.meta.url).pathname
const sketch = path.join(examplesDir, 'devices/esp32/esp32.ino')
const flags = ['-std=c++17', '-Wall', '-Wextra', '-Werror', '-I', support, `-DSKETCH="${sketch}"`]
await promisify(execFile)('g++', [...flags, path.join(support, 'main.cpp'), '-o', program])

t.test('the sketch sets a rejected batch aside, and sends the next ones', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(['too_large'])
  const flash = path.join(directory, 'flash-rejected')
  mkdirSync(flash)
  const running = start([program], { ...pipe.env, ARDUINO_FILES: flash })
  await until('a stored batch', async () => (await pipe.arrived()).length > 0)
  await kill(running)
  t.equal(readFileSync(path.join(flash, 'rejected'), 'utf8'), pipe.attempts[0]?.body)
  pipe.close()
})

t.test('the sketch of the ESP32 keeps its records over resets, and each is stored once', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(fates)
  const flash = path.join(directory, 'flash')
  mkdirSync(flash)
  const env = { ...pipe.env, ARDUINO_FILES: flash }
  const kept: string[] = []
  for (const [records, attempts] of [
    [3, 0],
    [8, 3],
    [5, 6],
  ] as const) {
    const running = start([program], env)
    await until(
      'records and requests',
      () => running.kept.length >= records && pipe.attempts.length >= attempts,
    )
    await kill(running)
    kept.push(...running.kept)
  }
  pipe.decide = () => 'forwarded'
  const last = start([program], env)
  const arrived: Record<string, unknown>[] = []
  const idOf = ({ boot, n }: Record<string, unknown>) => `${boot} ${n}`
  const wanted = kept.map((text) => idOf(JSON.parse(text)))
  await until('all records', async () => {
    arrived.push(...(await pipe.arrived()))
    const ids = new Set(arrived.map(idOf))
    return wanted.every((id) => ids.has(id))
  })
  await kill(last)
  arrived.push(...(await pipe.arrived()))
  t.equal(new Set(arrived.map(idOf)).size, arrived.length, 'nothing is stored twice')
  t.ok(wanted.length >= 16)
  const repeated = pipe.attempts.filter(({ key }, index) => pipe.attempts[index + 1]?.key === key)
  t.ok(repeated.length > 0, 'a batch was sent again with its key')
  pipe.close()
})

const compiled = { Swift: process.env.TEST_SWIFT, Kotlin: process.env.TEST_KOTLIN }

for (const [language, command] of Object.entries(compiled)) {
  if (command === undefined) continue
  t.test(`the queue in ${language}: killed twice, each record is stored once, in order`, async (t) => {
    const pipe = await openFaultyPipe(daemon)
    const env = { ...pipe.env, PIPECTL_QUEUE: path.join(directory, language) }
    const records = Array.from({ length: 650 }, (_, n) => `{"n":${n},"price":1.10,"text":"é"}`)
    const run = (from: number) =>
      start(
        command.split(' '),
        env,
        records
          .slice(from)
          .map((line) => `${line}\n`)
          .join(''),
      )
    const first = run(0)
    await until('records', () => first.kept.length >= 250)
    await kill(first)
    // The last one can be kept without being printed.
    pipe.decide = () => 'lost'
    const second = run(650)
    await until('requests', () => pipe.attempts.length >= 2)
    await kill(second)
    pipe.decide = inTurn(fates)
    const third = run(Math.max(first.kept.length + 1, 600))
    t.equal(await third.ended, 0)
    const numbers = (await pipe.arrived()).map(({ n }) => Number(n))
    t.same(
      numbers,
      [...new Set(numbers)].toSorted((a, b) => a - b),
      'in order, and nothing twice',
    )
    const stored = new Set(numbers)
    const kept = [...first.kept, ...third.kept].map((text) => Number(JSON.parse(text).n))
    t.same(
      kept.filter((n) => !stored.has(n)),
      [],
      'nothing is lost',
    )
    pipe.decide = ({ body }) => (body.includes('"n":700') ? 'too_large' : 'forwarded')
    const more = start(command.split(' '), env, '{"n":700}\n')
    t.equal(await more.ended, 0)
    t.equal(readdirSync(path.join(env.PIPECTL_QUEUE, 'rejected')).length, 1)
    pipe.close()
  })
}
