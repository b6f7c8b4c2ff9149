/** Runs store-program.ts as a child process and keeps what it promised. */
import { spawn } from 'node:child_process'
import { compiled } from './compiled.ts'
import type { Delivered, StoreSettings } from './store.ts'
import type { Acknowledged, Personal } from './store-check.ts'
import type { Step, StoreTask } from './store-program.ts'

export const pipes = ['018f0000-0000-4000-8000-000000000001', '018f0000-0000-4000-8000-000000000002']

export interface Promised {
  acknowledged: Acknowledged[]
  delivered: Delivered
  /** Messages with a personal record. */
  personal: Personal[]
  /** The personal records are deleted. */
  isErased: boolean
  /** The last words of a program that gave up. */
  fatal: string | null
  failed: number
  /** It was opened only when there was space again. */
  waited: boolean
}

export interface ProgramRun {
  root: string
  settings?: StoreSettings
  steps: readonly Step[]
  /** Number of the first message. */
  from?: number
  env: Record<string, string>
  /** The text that a step `arm` writes, and its file. */
  arming?: { controlFile: string; plan: string }
}

/** Runs it to its end, however that comes. */
export async function runProgram(run: ProgramRun): Promise<Promised & { end: string }> {
  const { root, settings = {}, steps, from = 0, env, arming = { controlFile: '', plan: '' } } = run
  const task: StoreTask = { root, pipes, from, settings, steps: [...steps], ...arming }
  const child = spawn(process.execPath, [compiled('store-program'), JSON.stringify(task)], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [text, errors] = ['', '']
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  let hangs = false
  const timer = setTimeout(() => {
    hangs = true
    child.kill('SIGKILL')
  }, 120_000)
  const end = await new Promise<string>((resolve) =>
    child.once('close', (code, signal) => resolve(String(signal ?? code))),
  )
  clearTimeout(timer)
  const unexpected = errors === '' ? '' : `: ${errors.slice(0, 300)}`
  return { ...promisedIn(text), end: hangs ? 'hanging' : `${end}${unexpected}` }
}

/** The promises in the lines of store-program.ts. */
export function promisedIn(text: string): Promised {
  const promised: Promised = {
    ...{ acknowledged: [], delivered: {}, personal: [], isErased: false },
    ...{ fatal: null, failed: 0, waited: false },
  }
  for (const line of text.split('\n')) {
    const [word, ...rest] = line.split(' ')
    if (word === 'ack') {
      const [seq, pipeId = '', number, key = '-', msgId = ''] = rest
      promised.acknowledged.push({
        ...{ seq: Number(seq), pipeId, number: Number(number) },
        key: key === '-' ? null : key,
        msgId,
      })
    } else if (word === 'personal')
      promised.personal.push({ seq: Number(rest[0]), pipeId: rest[1] ?? '', number: Number(rest[2]) })
    else if (word === 'erased') promised.isErased = true
    else if (word === 'delivered') promised.delivered[rest[1] ?? ''] = Number(rest[0])
    else if (word === 'fatal') promised.fatal = rest.join(' ')
    else if (word === 'failed') promised.failed += 1
    else if (word === 'waiting') promised.waited = true
  }
  return promised
}
