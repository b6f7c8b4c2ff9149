/** Allowed browser origins of a pipe (docs/dev/contract.md#allowed-origins). */
import { ApiError, validationError } from '../../contract/errors.ts'
import { normaliseOrigin, OriginCreate } from '../../contract/pipe.ts'
import { requireObject, validate } from '../../contract/validate.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { requirePipe, resourceId } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { publishChange: PublishChange }

export function originUseCases({ metadata, publishChange }: Deps) {
  return {
    async addAllowedOrigin(workspaceId: string, pipeId: string, body: unknown) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, pipeId)
      const { origin_domain } = validate(OriginCreate, normalised(requireObject(body)))
      const port = /:(\d+)$/.exec(origin_domain)?.[1]
      if (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535))
        throw validationError({ origin_domain: 'must have a port from 1 to 65535' })
      const added = await metadata.origins.add(workspaceId, pipe_id, origin_domain)
      await publishChange(pipe_id)
      return { pipe_allowed_origin_id: added.pipe_allowed_origin_id }
    },

    async removeAllowedOrigin(workspaceId: string, pipeId: string, originId: string): Promise<void> {
      const pipe = resourceId(pipeId, 'origin_not_found')
      const origin = resourceId(originId, 'origin_not_found')
      if (!(await metadata.origins.remove(workspaceId, pipe, origin))) throw new ApiError('origin_not_found')
      await publishChange(pipe)
    },
  }
}

/** As it is stored, before its form is checked: what is stored is compared with what browsers send. */
function normalised(body: Record<string, unknown>): Record<string, unknown> {
  const { origin_domain } = body
  return typeof origin_domain === 'string' ? { ...body, origin_domain: normaliseOrigin(origin_domain) } : body
}
