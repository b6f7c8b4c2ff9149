/** Transform threads for one test file, and the records and expressions that are given to them. */
import t from 'tap'
import type { Transform } from '../../../src/contract/transform.ts'
import { TransformThreads } from '../../../src/delivery/transform/transform-threads.ts'

export const ever = new AbortController().signal
export const transform = (filter: string | null, map: Transform['map'] = []): Transform => ({
  filter,
  map,
  mask_salt: null,
})
export const body = (...records: string[]) => Buffer.from(records.join('\n'))
export const text = (made: { body: Uint8Array | null } | undefined) =>
  made?.body === null || made === undefined ? null : Buffer.from(made.body).toString()

/** The threads keep no process alive. */
const alive = setInterval(() => {}, 1_000)
export const threads = new TransformThreads()
t.teardown(async () => {
  clearInterval(alive)
  await threads.close()
})

export const lane = (destinationId: string, workspaceId = 'w') => ({ workspaceId, destinationId })
export const hanging = `{"s":"${'a'.repeat(40)}!"}`
