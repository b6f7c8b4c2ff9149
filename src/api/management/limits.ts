/** Per-pipe limits (docs/dev/contract.md#pipe-limits): set as a whole, and removed as a whole. */
import { PipeLimits } from '../../contract/pipe.ts'
import { requireObject, validate } from '../../contract/validate.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { publishChange: PublishChange }

export function limitsUseCases({ metadata, publishChange }: Deps) {
  return {
    async putLimits(workspaceId: string, pipeId: string, body: unknown) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, pipeId)
      const given = validate(PipeLimits, requireObject(body))
      const limits = await metadata.limits.put(workspaceId, pipe_id, {
        ...given,
        // Left out means no cap, also when there was one (the row is replaced).
        pl_ingest_max_bytes_per_day: given.pl_ingest_max_bytes_per_day ?? null,
      })
      await publishChange(pipe_id)
      return { limits }
    },

    /** Also when there are none. */
    async deleteLimits(workspaceId: string, pipeId: string): Promise<void> {
      const { pipe_id } = await requirePipe(metadata, workspaceId, pipeId)
      await metadata.limits.delete(workspaceId, pipe_id)
      await publishChange(pipe_id)
    },
  }
}
