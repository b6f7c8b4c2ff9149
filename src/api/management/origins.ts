/** Allowed browser origins of a pipe (docs/dev/contract.md#allowed-origins). */
import { ApiError, validationError } from '../../contract/errors.ts'
import type { Call } from './call.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { requirePipe } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { publishChange: PublishChange }

export function originUseCases({ metadata, publishChange }: Deps) {
  return {
    async addAllowedOrigin({
      principal: { workspaceId },
      path,
      body: { origin_domain },
    }: Call<'addAllowedOrigin'>) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      const port = /:(\d+)$/.exec(origin_domain)?.[1]
      if (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535))
        throw validationError({ origin_domain: 'must have a port from 1 to 65535' })
      const added = await metadata.origins.add({ workspaceId, pipeId: pipe_id }, origin_domain)
      await publishChange(pipe_id)
      return { pipe_allowed_origin_id: added.pipe_allowed_origin_id }
    },

    async removeAllowedOrigin({
      principal: { workspaceId },
      path,
    }: Call<'removeAllowedOrigin'>): Promise<void> {
      const { pipe_id, origin_id } = path
      if (!(await metadata.origins.remove({ workspaceId, pipeId: pipe_id }, origin_id)))
        throw new ApiError('origin_not_found')
      await publishChange(pipe_id)
    },
  }
}
