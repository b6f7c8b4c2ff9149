/** Per-pipe limits (spec "Pipe limits"): set as a whole. */
import { PipeLimits } from '../contract/limits.ts'
import { requireObject, validate } from '../contract/validate.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { announce: (pipeId: string) => Promise<void> }

export function limitsUseCases({ metadata, announce }: Deps) {
  return {
    async putLimits(workspaceId: string, pipeId: string, body: unknown) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, pipeId)
      const given = validate(PipeLimits, requireObject(body))
      const limits = await metadata.limits.put(workspaceId, pipe_id, {
        ...given,
        // Left out means no cap, also when there was one (the row is replaced).
        pl_ingest_max_bytes_per_day: given.pl_ingest_max_bytes_per_day ?? null,
      })
      await announce(pipe_id)
      return { limits }
    },
  }
}
