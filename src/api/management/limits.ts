/** Limits of a pipe (docs/dev/contract.md#pipe-limits). They are replaced and removed as a whole. */
import type { Call } from './call.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { publishChange: PublishChange }

export function limitsUseCases({ metadata, publishChange }: Deps) {
  return {
    async putLimits({ principal: { workspaceId }, path, body }: Call<'putLimits'>) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      const limits = await metadata.limits.put(
        { workspaceId, pipeId: pipe_id },
        {
          ...body,
          // A limit that is left out is removed, because the whole row is replaced.
          pl_ingest_max_bytes_per_day: body.pl_ingest_max_bytes_per_day ?? null,
        },
      )
      await publishChange(pipe_id)
      return { limits }
    },

    /** Succeeds even if there are no limits. */
    async deleteLimits({ principal: { workspaceId }, path }: Call<'deleteLimits'>): Promise<void> {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      await metadata.limits.delete({ workspaceId, pipeId: pipe_id })
      await publishChange(pipe_id)
    },
  }
}
