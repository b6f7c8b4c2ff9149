/** Runs `append-forever.ts`, lets it work, ends it, and returns what it had acknowledged. */
import assert from 'node:assert'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { BufferReader } from '../../../src/log/buffer.ts'
import { childFlags } from '../../support/child-flags.ts'
import { programFile } from '../../support/programs.ts'
import { type Overrides, readAll } from './open.ts'

export interface Acknowledged {
  seq: number
  pipeId: string
  number: number
}

export interface CrashRun {
  acknowledged: Acknowledged[]
  failed: string[]
  isFatal: boolean
  exit: { code: number | null; signal: NodeJS.Signals | null }
}

export interface CrashTask {
  root: string
  pipes: string[]
  from?: number
  inFlight?: number
  bodyBytes?: number
  withKeys?: boolean
  delivers?: boolean
  undelivered?: string[]
  settings?: Overrides
}

/** `strace` arguments run the program under strace, which then decides how it ends. `killAfter`: acknowledgements. */
export async function runUntilDead(
  task: CrashTask,
  how: { killAfter?: number; strace?: string[] },
): Promise<CrashRun> {
  const defaults = {
    from: 0,
    inFlight: 32,
    bodyBytes: 500,
    withKeys: false,
    delivers: false,
    undelivered: [],
    settings: {},
  }
  const program = fileURLToPath(new URL('./append-forever.ts', import.meta.url))
  const node = [process.execPath, ...childFlags, program, JSON.stringify({ ...defaults, ...task })]
  const command =
    how.strace === undefined
      ? node
      : [programFile('strace'), '-f', '-qq', '-o', '/dev/null', ...how.strace, ...node]
  const child = spawn(command[0] ?? '', command.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] })
  const run: CrashRun = { acknowledged: [], failed: [], isFatal: false, exit: { code: null, signal: null } }
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    const [word, ...rest] = line.split(' ')
    if (word === 'ack') {
      const [seq, pipeId, number] = rest
      run.acknowledged.push({ seq: Number(seq), pipeId: pipeId ?? '', number: Number(number) })
      if (run.acknowledged.length === how.killAfter) child.kill('SIGKILL')
    } else if (word === 'failed') run.failed.push(rest.join(' '))
    else if (word === 'fatal') run.isFatal = true
  })
  const linesRead = new Promise((resolve) => lines.once('close', resolve))
  run.exit = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  await linesRead
  return run
}

/** Every acknowledged message is there with its own seq and body, in order; throws with the first that is not. */
export async function findAll(
  reader: BufferReader,
  acknowledged: readonly Acknowledged[],
  afterSeq: (pipeId: string) => number = () => 0,
): Promise<number> {
  const pipes = new Set(acknowledged.map(({ pipeId }) => pipeId))
  let found = 0
  for (const pipeId of pipes) {
    const stored = await readAll(reader, pipeId, afterSeq(pipeId), 10_000)
    const bySeq = new Map(stored.map(({ seq, body }) => [seq, Number(body.toString().split(' ')[0])]))
    for (const [index, { seq }] of stored.entries()) {
      assert(index === 0 || seq > (stored[index - 1]?.seq ?? 0), `seq ${seq} is out of order`)
    }
    for (const { seq, number, pipeId: ofPipe } of acknowledged) {
      if (ofPipe !== pipeId || seq <= afterSeq(pipeId)) continue
      assert(bySeq.get(seq) === number, `acknowledged message ${number} (seq ${seq}) is missing`)
      found += 1
    }
  }
  return found
}
