/**
 * The oracle for a buffer after a fault: it opens, has every acknowledged message that was not delivered, in order and
 * once, accepts more, remembers its idempotency keys, closes and opens again. One task per line of stdin, one verdict
 * per line of stdout.
 */
import { createInterface } from 'node:readline'
import { type Delivered, keptRecord, openStore, type Store, undeletedFile } from './store.ts'

export interface Acknowledged {
  seq: number
  pipeId: string
  number: number
  /** Null: without a key. */
  key: string | null
  msgId: string
}

/** A message of two records, the first of which is personal. */
export type Personal = Pick<Acknowledged, 'seq' | 'pipeId' | 'number'>

export interface CheckTask {
  root: string
  pipes: string[]
  acknowledged: Acknowledged[]
  /** These may be gone. */
  delivered: Delivered
  /** Keys of delivered messages are asked for too. */
  checksAllKeys: boolean
  /** Their personal records are deleted: a deletion that the fault has ended is repeated. */
  personal?: Personal[]
}

/** Null: all is well. */
export type Verdict = string | null

async function check(task: CheckTask): Promise<Verdict> {
  let died: string | null = null
  const open = () =>
    openStore(task.root, {}, (error) => {
      died = `died: ${textOf(error)}`
    })
  let store: Store
  try {
    store = await open()
  } catch (error) {
    return `does not open: ${textOf(error)}`
  }
  try {
    const verdict =
      (await messages(task, store)) ??
      (await erasure(task, store)) ??
      (await keys(task, store)) ??
      (await acceptsMore(task, store))
    await store.close()
    if (verdict !== null || died !== null) return verdict ?? died
    store = await open()
    await store.close()
    return died
  } catch (error) {
    return died ?? `fails: ${textOf(error)}`
  }
}

async function messages(task: CheckTask, store: Store): Promise<Verdict> {
  for (const pipeId of task.pipes) {
    const stored = await store.readAll(pipeId)
    const numbers = new Map(stored.map(({ seq, text }) => [seq, Number(text.split(' ')[0])]))
    if (numbers.size !== stored.length) return 'a message is read twice'
    if (stored.some(({ seq }, index) => index > 0 && seq <= stored[index - 1]!.seq)) return 'out of order'
    for (const { seq, number, pipeId: ofPipe } of task.acknowledged) {
      if (ofPipe !== pipeId || seq <= (task.delivered[pipeId] ?? 0)) continue
      if (numbers.get(seq) !== number) return `acknowledged message ${number} (seq ${seq}) is missing`
    }
  }
  return null
}

async function erasure({ root, pipes, personal = [] }: CheckTask, store: Store): Promise<Verdict> {
  if (personal.length === 0) return null
  await store.erase(pipes)
  const undeleted = undeletedFile(root)
  if (undeleted !== null) return undeleted
  for (const pipeId of pipes) {
    const texts = new Map((await store.readAll(pipeId)).map(({ seq, text }) => [seq, text]))
    for (const { seq, number, pipeId: ofPipe } of personal) {
      if (ofPipe === pipeId && texts.get(seq) !== `\n\n${keptRecord(number)}`)
        return `message ${number} (seq ${seq}) does not have its other record`
    }
  }
  return null
}

async function keys(task: CheckTask, store: Store): Promise<Verdict> {
  for (const { seq, pipeId, key } of task.acknowledged) {
    if (key === null || (seq <= (task.delivered[pipeId] ?? 0) && !task.checksAllKeys)) continue
    const again = await store.append(pipeId, `${key.slice(4)} `, key)
    if (!again.repeated || again.seq !== seq) return `idempotency key ${key} (seq ${seq}) is forgotten`
  }
  return null
}

async function acceptsMore(task: CheckTask, store: Store): Promise<Verdict> {
  const newest = Math.max(0, ...task.acknowledged.map(({ seq }) => seq))
  for (const pipeId of task.pipes) {
    const { seq } = await store.append(pipeId, 'more')
    if (seq <= newest) return `seq ${seq} is given out again`
    const last = (await store.readAll(pipeId)).at(-1)
    if (last?.seq !== seq || last.text !== 'more') return 'a new message is not read'
  }
  return null
}

function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error)
  const { code, message } = error as { code?: string; message?: string }
  return `${code ?? ''} ${message ?? JSON.stringify(error)}`.trim()
}

for await (const line of createInterface({ input: process.stdin })) {
  const verdict = await check(JSON.parse(line) as CheckTask)
  process.stdout.write(`${JSON.stringify(verdict)}\n`)
}
process.exit(0)
