/**
 * A program for crash tests: appends under load and writes down, line by line and unbuffered, what is acknowledged.
 * Arguments: directory, pipe ids (comma-separated), settings as JSON. Lines: `ack <seq> <pipe> <number>`, `failed <reason>`,
 * `fatal`. The numbers of a pipe ascend, also over runs: they go on after the argument's `from`.
 */
import { writeSync } from 'node:fs'
import { openBuffer, openBufferFeed } from '../../../src/stores/open-log.ts'
import { idempotent, message, type Overrides, quiet, specAt, watermark } from './open.ts'

interface Task {
  root: string
  pipes: string[]
  from: number
  inFlight: number
  bodyBytes: number
  /** Append everything with a key of its own. */
  withKeys: boolean
  /** Report every pipe as delivered up to the head, so that segments are dropped all the time. */
  delivers: boolean
  /** The pipes from which nothing is delivered. */
  undelivered: string[]
  settings: Overrides
}

const task = JSON.parse(process.argv[2] ?? '') as Task
/** Said when the call returns: what a killed program had said is what it had acknowledged. */
function say(line: string): void {
  const bytes = Buffer.from(`${line}\n`)
  for (let written = 0; written < bytes.length; ) {
    try {
      written += writeSync(1, bytes, written)
    } catch (error) {
      // The pipe is full and does not wait: the reader is slow.
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error
    }
  }
}

const spec = specAt(task.root, task.settings)
const buffer = await openBuffer(spec, {
  log: quiet,
  onFatal: (error) => {
    say(`fatal ${error.message}`)
    process.exit(70)
  },
})
const feed = await openBufferFeed(spec)
say('open')
let next = task.from

async function appendOn(): Promise<void> {
  for (;;) {
    const number = next++
    const pipeId = task.pipes[number % task.pipes.length] ?? ''
    const text = `${number} `.padEnd(task.bodyBytes, 'x')
    const more = task.withKeys ? idempotent(`key ${number}`) : {}
    try {
      const { seq } = await buffer.appender.append(message(pipeId, text, more))
      say(`ack ${seq} ${pipeId} ${number}`)
    } catch (error) {
      say(`failed ${error instanceof Error && 'reason' in error ? error.reason : error}`)
      // A rejection costs no time: let other work happen.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

for (let lane = 0; lane < task.inFlight; lane += 1) void appendOn()
if (task.delivers) {
  setInterval(async () => {
    const seq = await buffer.headSeq()
    feed.reportLowWatermarks(
      task.pipes.map((pipeId) => watermark(pipeId, task.undelivered.includes(pipeId) ? 0 : seq)),
    )
  }, 50)
}
