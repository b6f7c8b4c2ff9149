/** Does one thing to many resources: a few at a time, no faster than the daemon allows, with its progress. */
import { ApiFailure } from './failure.ts'

export interface ManyOptions {
  /** Called after each item. */
  onProgress?: (done: number, total: number) => void
  /** The shortest time between the starts of two calls. */
  everyMs?: number
  signal?: AbortSignal
}

export interface ManyResult<Item, Outcome> {
  outcomes: { item: Item; outcome: Outcome }[]
  failures: { item: Item; error: unknown }[]
}

const parallelCalls = 4
/** Attempts at one item while the daemon asks to wait (429). */
const mostAttempts = 5

/** Continues after failures, which are part of the result. After an abort, no further call begins. */
export async function forMany<Item, Outcome>(
  items: readonly Item[],
  run: (item: Item) => Promise<Outcome>,
  { onProgress, everyMs = 0, signal }: ManyOptions = {},
): Promise<ManyResult<Item, Outcome>> {
  const result: ManyResult<Item, Outcome> = { outcomes: [], failures: [] }
  let next = 0
  let nextStartMs = Date.now()
  const turn = async () => {
    const startMs = Math.max(Date.now(), nextStartMs)
    nextStartMs = startMs + everyMs
    await pause(startMs - Date.now())
  }
  const worker = async () => {
    while (next < items.length && signal?.aborted !== true) {
      const item = items[next++]!
      await turn()
      try {
        result.outcomes.push({ item, outcome: await patiently(() => run(item)) })
      } catch (error) {
        result.failures.push({ item, error })
      }
      onProgress?.(result.outcomes.length + result.failures.length, items.length)
    }
  }
  await Promise.all(Array.from({ length: Math.min(parallelCalls, items.length) }, worker))
  return result
}

/** Waits as long as the daemon asks. */
async function patiently<Outcome>(run: () => Promise<Outcome>): Promise<Outcome> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run()
    } catch (error) {
      const isTooFast = error instanceof ApiFailure && error.status === 429
      if (!isTooFast || attempt === mostAttempts) throw error
      await pause(error.retryAfterMs ?? 1_000)
    }
  }
}

function pause(ms: number): Promise<void> {
  return ms <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms))
}
