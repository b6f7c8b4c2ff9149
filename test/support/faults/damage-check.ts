/**
 * The oracle for a buffer with a damaged file: it opens, delivers nothing wrong, loses only what was in that file,
 * accepts more and reads it. One task per line of stdin, one verdict per line of stdout.
 */
import { createInterface } from 'node:readline'
import { openStore, type Store, type StoredMessage } from './store.ts'
import type { Acknowledged, Verdict } from './store-check.ts'

export interface DamageTask {
  root: string
  pipes: string[]
  acknowledged: Acknowledged[]
  /** The body of message N is `N ` with `x` up to this length. */
  bytes: number
  /** Messages that may be lost. */
  firstSeq: number
  lastSeq: number
}

async function check(task: DamageTask): Promise<Verdict> {
  let died: string | null = null
  let store: Store | null = null
  try {
    store = await openStore(task.root, {}, (error) => {
      died = `died: ${error.message}`
    })
    const more = new Map<string, number>()
    for (const pipeId of task.pipes) more.set(pipeId, (await store.append(pipeId, 'more')).seq)
    for (const [pipeId, seq] of more) {
      const verdict = compare(task, pipeId, await readTo(store, pipeId, seq))
      if (verdict !== null) return verdict
    }
    return died
  } catch (error) {
    return died ?? `fails: ${error instanceof Error ? error.message : JSON.stringify(error)}`
  } finally {
    await store?.close()
  }
}

/** A damaged segment is waited for until what can be read of it was saved. */
async function readTo(store: Store, pipeId: string, seq: number): Promise<StoredMessage[]> {
  for (;;) {
    const all = await store.readAll(pipeId)
    if (all.at(-1)?.seq === seq) return all.slice(0, -1)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function compare(task: DamageTask, pipeId: string, stored: readonly StoredMessage[]): Verdict {
  const bySeq = new Map(stored.map((message) => [message.seq, message]))
  if (bySeq.size !== stored.length) return 'a message is read twice'
  for (const { seq, number, msgId, pipeId: ofPipe } of task.acknowledged) {
    if (ofPipe !== pipeId) continue
    const found = bySeq.get(seq)
    bySeq.delete(seq)
    if (found === undefined) {
      if (seq < task.firstSeq || seq > task.lastSeq)
        return `message ${seq} is lost, which was not in the damaged file`
    } else if (
      found.text !== `${number} `.padEnd(task.bytes, 'x') ||
      found.msgId !== msgId ||
      found.recordCount !== 1
    )
      return `message ${seq} is delivered wrong`
  }
  return bySeq.size > 0 ? `message ${[...bySeq.keys()][0]} was never accepted` : null
}

for await (const line of createInterface({ input: process.stdin })) {
  const verdict = await check(JSON.parse(line) as DamageTask)
  process.stdout.write(`${JSON.stringify(verdict)}\n`)
}
process.exit(0)
