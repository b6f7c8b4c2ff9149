/** Pipes and their settings (docs/dev/contract.md#pipes, docs/dev/contract.md#request-bodies, docs/dev/contract.md#geolocation). */
import { writesClientIp } from '../../contract/client-ip.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import {
  geoFieldKeys,
  type Pipe,
  type PipePatch,
  type PipeUpdate,
  pipeDefaults,
  readOnlyPipeFields,
} from '../../contract/pipe.ts'
import { schemaErrors } from '../../contract/pipe-schema.ts'
import { sourceKeys } from '../../contract/source-words.ts'
import { type FieldErrors, throwIfErrors } from '../../contract/validate.ts'
import { isForPipe } from '../../ingest/admission.ts'
import { isVisible } from './api-keys.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { forgetDeleted, shownDestinations } from './destinations.ts'
import { requirePipe } from './lookup.ts'
import { newSource, requireNoAddress, requireNoSignature, sourceHeaders } from './pipe-source.ts'
import { usageByPipe } from './usage.ts'

type Deps = Pick<
  ManagementDeps,
  | 'metadata'
  | 'laneViews'
  | 'trials'
  | 'changes'
  | 'now'
  | 'pendingUsage'
  | 'isPrivateDenied'
  | 'undeliveredHours'
  | 'cluster'
>

type Service = Pick<Deps, 'cluster' | 'undeliveredHours'>
type PipeKeeps = Pick<Pipe, 'pipe_client_ip' | 'pipe_source_headers' | 'pipe_retention_hours'>

export function pipeUseCases(deps: Deps) {
  const { metadata, laneViews, trials, changes } = deps
  return {
    async listPipes({ principal }: Call<'listPipes'>) {
      const { workspaceId } = principal
      const all = await metadata.pipes.list(workspaceId)
      const pipes = all.filter((pipe) => isForPipe(principal, pipe.pipe_id))
      const ids = pipes.map((pipe) => pipe.pipe_id)
      const egress_private = deps.isPrivateDenied() ? 'deny' : 'allow'
      return { pipes, ...(await usageByPipe(deps, workspaceId, ids)), egress_private }
    },

    async createPipe({ principal: { workspaceId }, body }: Call<'createPipe'>) {
      const { pipe_status: _ignored, pipe_source: givenSource, ...given } = body
      // A new pipe is always active, whatever was sent (docs/dev/contract.md#request-bodies).
      const pipe = { ...pipeDefaults, ...given, pipe_status: 'active' as const }
      pipe.pipe_source_headers = sourceHeaders(pipe.pipe_source_headers)
      throwIfErrors({ ...collidingTargets(pipe), ...(await schemaFaults(body)) })
      requireKept(pipe, null, deps)
      const made = givenSource ? newSource(givenSource, null) : null
      requireNoSignature(pipe.pipe_source_headers, made?.source.settings.header)
      const { pipe_id } = await metadata.pipes.create(workspaceId, {
        ...pipe,
        pipe_source: made?.source ?? null,
      })
      await changes.publish({ pipeId: pipe_id })
      return { pipe_id, ...shownToken(made?.token) }
    },

    async getPipe({ principal, path }: Call<'getPipe'>) {
      const { workspaceId } = principal
      const pipe = await requirePipe(metadata, workspaceId, path)
      const [stored, limits, allowed_origins, keys] = await Promise.all([
        metadata.destinations.list({ workspaceId, pipeId: pipe.pipe_id }),
        metadata.limits.get({ workspaceId, pipeId: pipe.pipe_id }),
        metadata.origins.list({ workspaceId, pipeId: pipe.pipe_id }),
        metadata.apiKeys.list(workspaceId),
      ])
      const destinations = await shownDestinations(laneViews, stored)
      const api_keys = keys.filter((key) => isVisible(principal, key))
      return { pipe, destinations, limits, allowed_origins, api_keys }
    },

    async updatePipe({ principal: { workspaceId }, path, body }: Call<'updatePipe'>) {
      let token: string | null = null
      throwIfErrors(await schemaFaults(body))
      const pipe = await metadata.pipes.update({ workspaceId, pipeId: path.pipe_id }, (current) => {
        const { pipe_source: given, ...change } = pipeChange(current, body, deps)
        // The transaction can run again: the token of the last time is the stored one.
        token = null
        if (given === null) return { ...change, pipe_source: null }
        const made = given === undefined ? null : newSource(given, current.pipe_source)
        const headers = change.pipe_source_headers ?? current.pipe_source_headers
        requireNoSignature(headers, made === null ? current.pipe_source?.header : made.source.settings.header)
        if (made === null) return change
        token = made.token
        return { ...change, pipe_source: made.source }
      })
      if (pipe === null) throw new ApiError('pipe_not_found')
      await changes.publish({ pipeId: pipe.pipe_id })
      return { pipe, ...shownToken(token) }
    },

    async deletePipe({ principal: { workspaceId }, path }: Call<'deletePipe'>): Promise<void> {
      const pipe = await requirePipe(metadata, workspaceId, path)
      const id = pipe.pipe_id
      const destinations = await metadata.destinations.list({ workspaceId, pipeId: id })
      if (!(await metadata.pipes.delete({ workspaceId, pipeId: id }))) throw new ApiError('pipe_not_found')
      await changes.publish({ pipeId: id })
      forgetDeleted(trials, { workspaceId, pipe }, destinations)
    },
  }
}

/** Limits (docs/dev/contract.md#pipe-limits) and allowed browser origins (docs/dev/contract.md#allowed-origins). */
export function pipeSettingUseCases({ metadata, changes }: Pick<ManagementDeps, 'metadata' | 'changes'>) {
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
      await changes.publish({ pipeId: pipe_id })
      return { limits }
    },

    /** Succeeds even if there are no limits. */
    async deleteLimits({ principal: { workspaceId }, path }: Call<'deleteLimits'>): Promise<void> {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      await metadata.limits.delete({ workspaceId, pipeId: pipe_id })
      await changes.publish({ pipeId: pipe_id })
    },

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
      await changes.publish({ pipeId: pipe_id })
      return { pipe_allowed_origin_id: added.pipe_allowed_origin_id }
    },

    async removeAllowedOrigin({
      principal: { workspaceId },
      path,
    }: Call<'removeAllowedOrigin'>): Promise<void> {
      const { pipe_id, origin_id } = path
      if (!(await metadata.origins.remove({ workspaceId, pipeId: pipe_id }, origin_id)))
        throw new ApiError('origin_not_found')
      await changes.publish({ pipeId: pipe_id })
    },
  }
}

/**
 * Applies a PATCH to the stored pipe. A read-only field can be sent back with the value that GET showed
 * (docs/dev/contract.md#request-bodies).
 */
function pipeChange(current: Pipe, body: PipePatch, service: Service): PipeUpdate {
  const change = { ...body }
  const errors: FieldErrors = {}
  for (const key of readOnlyPipeFields) {
    if (change[key] !== undefined && change[key] !== current[key]) errors[key] = `${key} cannot be changed.`
    delete change[key]
  }
  throwIfErrors(errors)
  if (change.pipe_source_headers !== undefined)
    change.pipe_source_headers = sourceHeaders(change.pipe_source_headers)
  throwIfErrors(collidingTargets({ ...current, ...change }))
  requireKept({ ...current, ...change }, current, service)
  return change
}

/** Checks how much is kept of a pipe, and for how long. `current`: the pipe before the change; null: it is new. */
function requireKept(pipe: PipeKeeps, current: PipeKeeps | null, service: Service): void {
  requireNoAddress(pipe)
  // A limit that is sent back unchanged is accepted, even if the setting of the daemon is lower by now.
  const { pipe_retention_hours: hours } = pipe
  if (hours !== (current?.pipe_retention_hours ?? null)) requireRetention(hours, service)
}

/** The buffer of a cluster is one stream, which has one retention. */
function requireRetention(hours: number | null, { cluster, undeliveredHours }: Service): void {
  if (hours === null) return
  if (cluster !== null)
    throw validationError({
      pipe_retention_hours:
        'must be null in a cluster: its buffer keeps the messages of all pipes for buffer.undelivered_hours',
    })
  if (hours > undeliveredHours)
    throw validationError({
      pipe_retention_hours: `must be at most ${undeliveredHours}, which is buffer.undelivered_hours: no message is kept longer than that`,
    })
}

function shownToken(token: string | null | undefined): { pipe_source_token?: string } {
  return token ? { pipe_source_token: token } : {}
}

/** Patterns are verified by the engine that runs them. It is loaded with the first schema. */
async function schemaFaults(body: Pick<PipeUpdate, 'pipe_schema'>): Promise<FieldErrors> {
  if (body.pipe_schema == null) return {}
  const { patternVerifier } = await import('../../ingest/schema/linear-pattern.ts')
  return schemaErrors(body, patternVerifier())
}

function tagFieldOf({
  pipe_schema,
  pipe_schema_on_mismatch,
  pipe_schema_tag_field,
}: EnrichmentFields): string | null {
  return pipe_schema !== null && pipe_schema_on_mismatch === 'tag' ? pipe_schema_tag_field : null
}

type EnrichmentFields = Pick<
  Pipe,
  | 'pipe_add_ingest_ts'
  | 'pipe_add_ingest_ip'
  | 'pipe_ingest_ts_field'
  | 'pipe_ingest_ip_field'
  | 'pipe_client_ip'
  | 'pipe_source_headers'
  | 'pipe_source_raw'
  | 'pipe_schema'
  | 'pipe_schema_on_mismatch'
  | 'pipe_schema_tag_field'
  | (typeof geoFieldKeys)[number]
>

/**
 * Two enrichments with the same key would overwrite each other. The error names the second one. Enrichments that are
 * switched off do not count.
 */
function collidingTargets(pipe: EnrichmentFields): FieldErrors {
  const targets: [field: string, key: string | null][] = [
    ['pipe_ingest_ts_field', pipe.pipe_add_ingest_ts ? pipe.pipe_ingest_ts_field : null],
    ['pipe_ingest_ip_field', writesClientIp(pipe) ? pipe.pipe_ingest_ip_field : null],
    ...geoFieldKeys.map((field): [string, string | null] => [field, pipe[field]]),
    ['pipe_source_headers', pipe.pipe_source_headers.length > 0 ? sourceKeys.headers : null],
    ['pipe_source_raw', pipe.pipe_source_raw ? sourceKeys.rawBody : null],
    ['pipe_schema_tag_field', tagFieldOf(pipe)],
  ]
  const errors: FieldErrors = {}
  const taken = new Map<string, string>()
  for (const [field, key] of targets) {
    if (key === null) continue
    const other = taken.get(key)
    if (other === undefined) taken.set(key, field)
    else errors[field] = `must differ from ${other}: both would be written to the key "${key}"`
  }
  return errors
}
