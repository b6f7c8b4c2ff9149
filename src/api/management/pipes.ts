/** Pipes (docs/dev/contract.md#pipes, docs/dev/contract.md#request-bodies). */
import { ApiError } from '../../contract/errors.ts'
import { type Pipe, PipeCreate, PipeUpdate, pipeDefaults } from '../../contract/pipe.ts'
import { isForPipe, type Principal } from '../../contract/principal.ts'
import { requireObject, shapeFaults, throwIfErrors, validate } from '../../contract/validate.ts'
import { isVisible } from './api-keys.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { forgetDeleted, shownDestinations } from './destinations.ts'
import { requirePipe, resourceId } from './lookup.ts'
import { collidingTargets, trimGeoFields } from './pipe-rules.ts'
import { usageByPipe } from './usage.ts'

type Deps = Pick<
  ManagementDeps,
  'metadata' | 'laneViews' | 'trials' | 'now' | 'pendingUsage' | 'isPrivateDenied'
> & {
  publishChange: PublishChange
}

export function pipeUseCases(deps: Deps) {
  const { metadata, laneViews, trials, publishChange } = deps
  return {
    async listPipes(principal: Principal) {
      const { workspaceId } = principal
      const all = await metadata.pipes.list(workspaceId)
      const pipes = all.filter((pipe) => isForPipe(principal, pipe.pipe_id))
      const ids = pipes.map((pipe) => pipe.pipe_id)
      const egress_private = deps.isPrivateDenied() ? 'deny' : 'allow'
      return { pipes, ...(await usageByPipe(deps, workspaceId, ids)), egress_private }
    },

    async createPipe(workspaceId: string, body: unknown) {
      const { pipe_status: _ignored, ...given } = validate(PipeCreate, trimGeoFields(requireObject(body)))
      // A new pipe is always active, whatever was sent (docs/dev/contract.md#request-bodies).
      const pipe = { ...pipeDefaults, ...given, pipe_status: 'active' as const }
      throwIfErrors(collidingTargets(pipe))
      const { pipe_id } = await metadata.pipes.create(workspaceId, pipe)
      await publishChange(pipe_id)
      return { pipe_id }
    },

    async getPipe(principal: Principal, pipeId: string) {
      const { workspaceId } = principal
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const [stored, limits, allowed_origins, keys] = await Promise.all([
        metadata.destinations.list(workspaceId, pipe.pipe_id),
        metadata.limits.get(workspaceId, pipe.pipe_id),
        metadata.origins.list(workspaceId, pipe.pipe_id),
        metadata.apiKeys.list(workspaceId),
      ])
      const destinations = await shownDestinations(laneViews, stored)
      const api_keys = keys.filter((key) => isVisible(principal, key))
      return { pipe, destinations, limits, allowed_origins, api_keys }
    },

    async updatePipe(workspaceId: string, pipeId: string, body: unknown) {
      const id = resourceId(pipeId, 'pipe_not_found')
      const pipe = await metadata.pipes.update(workspaceId, id, (current) => pipeChange(current, body))
      if (pipe === null) throw new ApiError('pipe_not_found')
      await publishChange(pipe.pipe_id)
      return { pipe }
    },

    async deletePipe(workspaceId: string, pipeId: string): Promise<void> {
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const id = pipe.pipe_id
      const destinations = await metadata.destinations.list(workspaceId, id)
      if (!(await metadata.pipes.delete(workspaceId, id))) throw new ApiError('pipe_not_found')
      await publishChange(id)
      forgetDeleted(trials, pipe, destinations)
    },
  }
}

/** The checked body of a PATCH against what is stored. */
function pipeChange(current: Pipe, body: unknown): PipeUpdate {
  const given = withoutReadOnly(trimGeoFields(requireObject(body)), current)
  const errors = shapeFaults(PipeUpdate, given)
  for (const key of readOnly) if (Object.hasOwn(given, key)) errors[key] = `${key} cannot be changed.`
  throwIfErrors(errors)
  const change = validate(PipeUpdate, given)
  throwIfErrors(collidingTargets({ ...current, ...change }))
  return change
}

const readOnly = ['pipe_id', 'pipe_name', 'pipe_created_ts', 'pipe_updated_ts'] as const

/** A read-only field can be sent back with the value that GET showed (docs/dev/contract.md#request-bodies). */
function withoutReadOnly(given: Record<string, unknown>, current: Pipe): Record<string, unknown> {
  const isUnchanged = ([key, value]: [string, unknown]) =>
    readOnly.some((name) => name === key && current[name] === value)
  return Object.fromEntries(Object.entries(given).filter((entry) => !isUnchanged(entry)))
}
