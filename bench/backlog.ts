/** A backlog to deliver: lanes are blocked while it is made, then let go and timed until they have drained it. */
import type { TestDaemon } from '../test/support/daemon.ts'
import { recordArray } from './records.ts'

/** Sends `total` records in arrays of 100, several requests at a time. */
export async function fill(daemon: TestDaemon, pipeId: string, total: number): Promise<void> {
  let next = 0
  const sender = async () => {
    while (next < total) {
      const first = next
      next += 100
      await daemon.ingest(pipeId, recordArray(first, Math.min(100, total - first)))
    }
  }
  await Promise.all(Array.from({ length: 16 }, sender))
}

/** Lets the destinations go and waits until none has anything pending. Returns the seconds it took. */
export async function drain(daemon: TestDaemon, pipeId: string, destinationIds: string[]): Promise<number> {
  const startedAt = performance.now()
  for (const id of destinationIds) {
    await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}/status`, {
      destination_status: 'active',
    })
  }
  for (const id of destinationIds) {
    for (;;) {
      const lane = await daemon.lane(pipeId, id)
      if (lane.pending_messages === 0) break
      if (lane.blocking_msg_id !== null)
        throw new Error(`the lane is blocked: ${JSON.stringify(lane.last_error)}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  return (performance.now() - startedAt) / 1000
}

/** An HTTP endpoint that gets a record a line. */
export function endpoint(url: string): Record<string, unknown> {
  return { destination_type: 'destination_http_endpoint', destination_config: { url, body_format: 'ndjson' } }
}

/** A destination that holds its backlog until `drain`. Returns its id. */
export async function blockedDestination(
  daemon: TestDaemon,
  pipeId: string,
  destination: Record<string, unknown>,
): Promise<string> {
  const id = await daemon.createDestination(pipeId, destination)
  await block(daemon, pipeId, id)
  return id
}

/** The destination holds its backlog until `drain`. */
export async function block(daemon: TestDaemon, pipeId: string, id: string): Promise<void> {
  await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}/status`, {
    destination_status: 'blocked',
  })
}
