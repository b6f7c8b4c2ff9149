/**
 * A program on the buffer for fault tests: does the steps of its argument and says, line by line and at once, what it
 * has promised: `ack SEQ PIPE NUMBER KEY MSGID`, `personal SEQ PIPE NUMBER`, `erased`, `failed REASON`, `delivered SEQ PIPE`, `fatal MESSAGE`. Exit 70 as the daemon's when
 * the buffer gives up, 1 when it cannot be opened. Without space it waits to be opened as the daemon does, by the same
 * function: `waiting` is said, and the space comes back while it waits.
 */
import { readdirSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { openServiceManager } from '../../../src/daemon/service-manager.ts'
import { startWhenSpace } from '../../../src/daemon/start-when-space.ts'
import { openLog } from '../../../src/platform/log.ts'
import { openStore, type Store, type StoreSettings } from './store.ts'

export type Step =
  /** On a disk without space: fails, fails once more, and then there is space. */
  | { do: 'open' }
  | { do: 'close' }
  /** Messages one after the other, for all pipes in turn or for one; every second with an idempotency key. */
  | { do: 'append'; count: number; bytes: number; pipe?: number }
  /** So many clients, each of which sends its next one after its response. What has a key is sent twice, at once. */
  | { do: 'append side by side'; count: number; bytes: number; clients: number }
  /** Messages with a personal record and another one, for all pipes in turn. */
  | { do: 'append personal'; count: number }
  /** Deletes the personal records. */
  | { do: 'erase' }
  /** All messages so far are delivered, or those of one pipe. */
  | { do: 'deliver'; pipe?: number }
  /** The messages of a pipe so far are older than its limit. It gets no more. */
  | { do: 'expire'; pipe: number }
  /** Waits for a segment to be compacted, but not long: a fault may prevent it. */
  | { do: 'await compaction' }
  /** Waits until only the newest segment has a WAL, likewise. */
  | { do: 'await sealing' }
  /** Waits for the damaged segments to be salvaged, likewise. */
  | { do: 'await salvage' }
  /** Writes the plan: the library numbers from here. */
  | { do: 'arm' }
  /** Ends at once, as if killed. */
  | { do: 'exit' }

export interface StoreTask {
  root: string
  pipes: string[]
  /** Number of the first message. */
  from: number
  settings: StoreSettings
  steps: Step[]
  controlFile: string
  plan: string
}

const task = JSON.parse(process.argv[2] ?? '') as StoreTask
let next = task.from
let store: Store | null = null

function say(line: string): void {
  writeSync(1, `${line}\n`)
}

function fail(code: number): (error: unknown) => never {
  return (error) => {
    say(`fatal ${textOf(error)}`)
    process.exit(code)
  }
}

function setPlan(plan: string): void {
  writeFileSync(`${task.controlFile}.new`, plan)
  renameSync(`${task.controlFile}.new`, task.controlFile)
}

/** An error that it throws would also end the daemon. */
async function openWhenSpace(): Promise<Store | null> {
  const log = openLog({ level: 'fatal', format: 'json' }, 'faults')
  let tries = 0
  const start = async () => {
    tries += 1
    if (tries === 2) say('waiting')
    if (tries === 3) setPlan('')
    return await openStore(task.root, task.settings, fail(70))
  }
  const serviceManager = openServiceManager({}, log)
  return await startWhenSpace(start, {
    directory: task.root,
    log,
    serviceManager,
    stopSignal: () => new Promise(() => {}),
  })
}

/** An error that comes from a worker may be a plain object. */
function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error)
  const { code, message } = error as { code?: string; message?: string }
  return `${code ?? ''} ${message ?? JSON.stringify(error)}${error instanceof Error && error.cause !== undefined ? ` (${textOf(error.cause)})` : ''}`.trim()
}

async function append(opened: Store, bytes: number, pipe = next % task.pipes.length): Promise<void> {
  await appendNumber(opened, bytes, pipe, next++)
}

async function appendPersonal(opened: Store): Promise<void> {
  const number = next++
  const pipeId = task.pipes[number % task.pipes.length] ?? ''
  await sayFailure(async () => {
    const { seq } = await opened.appendPersonal(pipeId, number)
    say(`personal ${seq} ${pipeId} ${number}`)
  })
}

async function erase(opened: Store): Promise<void> {
  await sayFailure(async () => {
    await opened.erase(task.pipes)
    say('erased')
  })
}

async function sayFailure(run: () => Promise<void>): Promise<void> {
  try {
    await run()
  } catch (error) {
    say(`failed ${error instanceof Error && 'reason' in error ? error.reason : textOf(error)}`)
  }
}

async function appendSideBySide(opened: Store, bytes: number, count: number, clients: number): Promise<void> {
  const end = next + count
  const client = async () => {
    while (next < end) {
      const number = next++
      const pipe = number % task.pipes.length
      const times = number % 2 === 0 ? 2 : 1
      await Promise.all(Array.from({ length: times }, () => appendNumber(opened, bytes, pipe, number)))
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
}

async function appendNumber(opened: Store, bytes: number, pipe: number, number: number): Promise<void> {
  const pipeId = task.pipes[pipe] ?? ''
  const key = number % 2 === 0 ? `key-${number}` : undefined
  await sayFailure(async () => {
    const { seq, msgId } = await opened.append(pipeId, `${number} `.padEnd(bytes, 'x'), key)
    say(`ack ${seq} ${pipeId} ${number} ${key ?? '-'} ${msgId}`)
  })
}

function isCompacted(): boolean {
  return readdirSync(path.join(task.root, 'buffer')).some((name) => /\.\d+\.db$/.test(name))
}

function isSealed(): boolean {
  return readdirSync(path.join(task.root, 'buffer')).filter((name) => /^\d.*-wal$/.test(name)).length === 1
}

async function briefly(isDone: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 2_000
  while (!(await isDone()) && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10))
}

for (const step of task.steps) {
  if (step.do === 'exit') process.kill(process.pid, 'SIGKILL')
  else if (step.do === 'open') store = await openWhenSpace().catch(fail(1))
  else if (step.do === 'arm') setPlan(task.plan)
  else if (store === null) throw new Error('not open')
  else if (step.do === 'close') await store.close().catch(fail(71))
  else if (step.do === 'deliver') {
    const seq = await store.headSeq()
    const isDelivered = (index: number) => step.pipe === undefined || step.pipe === index
    const seqs = Object.fromEntries(task.pipes.map((pipeId, index) => [pipeId, isDelivered(index) ? seq : 0]))
    for (const [pipeId, upTo] of Object.entries(seqs)) say(`delivered ${upTo} ${pipeId}`)
    store.reportDelivered(seqs)
  } else if (step.do === 'expire') {
    const pipeId = task.pipes[step.pipe] ?? ''
    say(`delivered ${await store.headSeq()} ${pipeId}`)
    store.reportExpired(pipeId)
  } else if (step.do === 'await compaction') await briefly(isCompacted)
  else if (step.do === 'await sealing') await briefly(isSealed)
  else if (step.do === 'await salvage') {
    const opened = store
    await briefly(async () => (await opened.damagedSegments()) === 0)
  } else if (step.do === 'erase') await erase(store)
  else if (step.do === 'append personal') for (let n = 0; n < step.count; n += 1) await appendPersonal(store)
  else if (step.do === 'append side by side')
    await appendSideBySide(store, step.bytes, step.count, step.clients)
  else for (let n = 0; n < step.count; n += 1) await append(store, step.bytes, step.pipe)
}
say('done')
