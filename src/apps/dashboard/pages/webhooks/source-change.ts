/** The part of a pipe that the page of webhooks changes, and changes of it that another user must not have made too. */
import type { Pipe, PipePatch } from '../../../../contract/pipe.ts'
import { api } from '../../data/api.ts'
import { ifUnchanged, type Versioned } from '../../data/if-unchanged.ts'

export function sourcePart({ pipe_source, pipe_source_headers, pipe_source_raw }: Pipe): object {
  return { pipe_source, pipe_source_headers, pipe_source_raw }
}

export async function readPipe(pipeId: string): Promise<Versioned<Pipe>> {
  const { body, etag } = await api.call('getPipe', { path: { pipe_id: pipeId } })
  return { stored: body.pipe, etag }
}

/** `secrets` is the complete list, so another user's change in between would be lost. Throws ChangedMeanwhile. */
export async function changeSource(seen: Versioned<Pipe>, body: PipePatch) {
  const path = { pipe_id: seen.stored.pipe_id }
  const watched = { part: sourcePart, read: () => readPipe(path.pipe_id) }
  return await ifUnchanged(seen, watched, (ifMatch) => api.call('updatePipe', { path, body, ifMatch }))
}
