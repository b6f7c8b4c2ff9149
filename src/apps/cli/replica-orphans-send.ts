/**
 * Sends orphans to the new primary, in the order of the log, each under an Idempotency-Key that is derived from its id. A run
 * that was interrupted is repeated from the start: what had arrived is recognized for 24 hours.
 */
import { type Orphans, recordTextsOf } from '../../maintenance/replica-orphans.ts'
import type { Client } from '../client/client.ts'
import { sendBatch } from './ingest/send-batch.ts'
import { openCountProgress } from './progress.ts'
import { say } from './terminal.ts'

const patienceMs = 10 * 60_000

/** Returns the names of pipes that the key cannot access, or that no longer exist. Throws Failure. */
export async function sendOrphans(
  client: Client,
  orphans: Orphans,
  skipDelivered: boolean,
): Promise<string[]> {
  const { pipes } = orphans.report
  const { body } = await client.call('listPipes')
  const known = new Set(body.pipes.map(({ pipe_id }) => pipe_id))
  const sent = pipes.filter(({ pipe_id }) => known.has(pipe_id))
  const total = sent.reduce((sum, { messages }) => sum + messages, 0)
  const progress = openCountProgress('Sent', total)
  let done = 0
  try {
    for (const message of orphans.messages()) {
      if (!known.has(message.pipeId)) continue
      if (!(skipDelivered && message.isDelivered)) await send(client, message)
      progress.update(++done)
    }
  } finally {
    progress.end()
  }
  orphans.settle(sent, 'sent')
  return pipes
    .filter(({ pipe_id }) => !known.has(pipe_id))
    .map(({ pipe_name, pipe_id }) => pipe_name ?? pipe_id)
}

async function send(
  client: Client,
  { pipeId, msgId, body }: { pipeId: string; msgId: string; body: Buffer },
): Promise<void> {
  const records = recordTextsOf(body)
  if (records.length === 0) return
  await sendBatch(
    client,
    pipeId,
    { body: Buffer.from(`[${records.join(',')}]`), key: `pipectl-orphan-${msgId}` },
    {
      gzip: false,
      patienceMs,
      origin: null,
      signal: new AbortController().signal,
      onWait: (reason) => say(`Waiting: ${reason}`),
    },
  )
}
