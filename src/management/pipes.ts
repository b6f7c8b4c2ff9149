/** Pipes (spec "Pipe", "Management"; contract "Management bodies"). */
import { ApiError } from '../contract/errors.ts'
import { PipeCreate, PipeUpdate, pipeDefaults } from '../contract/pipe.ts'
import { explain, refuseAny, requireObject, validate } from '../contract/validate.ts'
import type { ManagementDeps } from './deps.ts'
import { shownDestinations } from './destinations.ts'
import { requirePipe, resourceId } from './lookup.ts'
import { collidingTargets, trimGeoFields } from './pipe-rules.ts'
import { usageByPipe } from './usage.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'delivery' | 'now' | 'pendingUsage'> & {
  announce: (pipeId: string) => Promise<void>
}

export function pipeUseCases(deps: Deps) {
  const { metadata, announce } = deps
  return {
    async listPipes(workspaceId: string) {
      const pipes = await metadata.pipes.list(workspaceId)
      const ids = pipes.map((pipe) => pipe.pipe_id)
      return { pipes, ...(await usageByPipe(deps, workspaceId, ids)) }
    },

    async createPipe(workspaceId: string, body: unknown) {
      const { pipe_status: _ignored, ...given } = validate(PipeCreate, trimGeoFields(requireObject(body)))
      // A new pipe is always active, whatever was sent (spec rule 3).
      const pipe = { ...pipeDefaults, ...given, pipe_status: 'active' as const }
      refuseAny(collidingTargets(pipe))
      const { pipe_id } = await metadata.pipes.create(workspaceId, pipe)
      await announce(pipe_id)
      return { pipe_id }
    },

    async getPipe(workspaceId: string, pipeId: string) {
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const [stored, limits, allowed_origins, api_keys] = await Promise.all([
        metadata.destinations.list(workspaceId, pipe.pipe_id),
        metadata.limits.get(workspaceId, pipe.pipe_id),
        metadata.origins.list(workspaceId, pipe.pipe_id),
        metadata.apiKeys.list(workspaceId),
      ])
      const destinations = await shownDestinations(deps.delivery, stored)
      return { pipe, destinations, limits, allowed_origins, api_keys }
    },

    async updatePipe(workspaceId: string, pipeId: string, body: unknown) {
      const current = await requirePipe(metadata, workspaceId, pipeId)
      const given = trimGeoFields(requireObject(body))
      const errors = explain(PipeUpdate, given)
      if (Object.hasOwn(given, 'pipe_name')) errors.pipe_name = 'pipe_name cannot be changed.'
      refuseAny(errors)
      const change = validate(PipeUpdate, given)
      refuseAny(collidingTargets({ ...current, ...change }))
      const pipe = await metadata.pipes.update(workspaceId, current.pipe_id, change)
      if (pipe === null) throw new ApiError('pipe_not_found')
      await announce(pipe.pipe_id)
      return { pipe }
    },

    async deletePipe(workspaceId: string, pipeId: string): Promise<void> {
      const id = resourceId(pipeId, 'pipe_not_found')
      if (!(await metadata.pipes.delete(workspaceId, id))) throw new ApiError('pipe_not_found')
      await announce(id)
    },
  }
}
