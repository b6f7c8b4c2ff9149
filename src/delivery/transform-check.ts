/** What a transform makes of the newest records of its pipe: a line of POST …/destinations/test. */

import { recordTexts } from '../buffer/record-text.ts'
import type { Transform } from '../contract/transform.ts'
import { DeliveryError, type DestinationCheck } from '../destinations/driver.ts'
import { ExceededError, type TransformedBody } from '../transform/thread-protocol.ts'

export type RunTransform = (
  destinationId: string,
  transform: Transform,
  bodies: readonly Buffer[],
  signal: AbortSignal,
) => Promise<TransformedBody[]>

/** Not ok: it can be applied to none of them, or takes too long. */
export async function checkTransform(
  destinationId: string,
  transform: Transform,
  bodies: readonly Buffer[],
  run: RunTransform,
  signal: AbortSignal,
): Promise<DestinationCheck> {
  const name = 'transform'
  const seen = bodies.reduce((sum, body) => sum + recordTexts(body).length, 0)
  if (seen === 0)
    return { name, ok: true, message: 'The pipe holds no records yet that it could be tried on.' }
  try {
    const made = await run(destinationId, transform, bodies, signal)
    const filtered = made.reduce((sum, one) => sum + one.filtered, 0)
    const failed = made.flatMap((one) => one.failed)
    const kept = seen - filtered - failed.length
    const fault = failed[0] === undefined ? '' : `, the first: ${failed[0].message}`
    const message = `Of the ${seen} newest records ${kept} are kept, ${filtered} filtered out, and ${failed.length} fail${fault}`
    return { name, ok: failed.length < seen, message: printable(message) }
  } catch (error) {
    if (!(error instanceof ExceededError) && !signal.aborted) throw error
    const why = error instanceof ExceededError ? error.message : 'It took too long.'
    return { name, ok: false, message: printable(`Of the ${seen} newest records: ${why}`) }
  }
}

/** Errors may hold what records hold. */
function printable(text: string): string {
  return new DeliveryError('permanent', 'transform', text.endsWith('.') ? text : `${text}.`).message
}
