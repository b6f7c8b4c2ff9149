/** Allowed browser origins of a pipe (spec "Allowed origin"). */
import { ApiError, validationError } from '../contract/errors.ts'
import { OriginCreate } from '../contract/origin.ts'
import { requireObject, validate } from '../contract/validate.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe, resourceId } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata'> & { announce: (pipeId: string) => Promise<void> }

export function originUseCases({ metadata, announce }: Deps) {
  return {
    async addAllowedOrigin(workspaceId: string, pipeId: string, body: unknown) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, pipeId)
      const { origin_domain } = validate(OriginCreate, lowerCased(requireObject(body)))
      const port = /:(\d+)$/.exec(origin_domain)?.[1]
      if (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535))
        throw validationError({ origin_domain: 'must have a port from 1 to 65535' })
      const added = await metadata.origins.add(workspaceId, pipe_id, origin_domain)
      await announce(pipe_id)
      return { pipe_allowed_origin_id: added.pipe_allowed_origin_id }
    },

    async removeAllowedOrigin(workspaceId: string, pipeId: string, originId: string): Promise<void> {
      const pipe = resourceId(pipeId, 'origin_not_found')
      const origin = resourceId(originId, 'origin_not_found')
      if (!(await metadata.origins.remove(workspaceId, pipe, origin))) throw new ApiError('origin_not_found')
      await announce(pipe)
    },
  }
}

/** Browsers send origins in lower case; what is stored is compared with that. */
function lowerCased(body: Record<string, unknown>): Record<string, unknown> {
  const { origin_domain } = body
  return typeof origin_domain === 'string' ? { ...body, origin_domain: origin_domain.toLowerCase() } : body
}
